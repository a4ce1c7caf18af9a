require "net/http"

class OffersController < ApplicationController
  SUPPLIERS = URI(ENV.fetch("FAULT_UPSTREAM"))

  def index
    @offers = (1..4).map { |book| JSON.parse(Net::HTTP.get(SUPPLIERS + "/offers/#{book}")) }
  end
end
