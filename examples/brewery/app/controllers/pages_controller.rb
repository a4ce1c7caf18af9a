require "net/http"
require "suppliers"

class PagesController < ApplicationController
  LONGEST = 60_000

  def home
    @beers = Beer.includes(:brewery).order(:id).limit(200).to_a.sample(6, random: Random.new(Date.current.yday))
    @notes = Note.includes(beer: :brewery).order(created_at: :desc).limit(4)
  end

  def search
    @words = params[:q].to_s.strip
    return if @words.empty?

    @breweries = Brewery.matching(@words).order(:name).limit(24)
    @beers = Beer.matching(@words).includes(:brewery).order(:name).limit(48)
  end

  # A page that thinks for ?ms= milliseconds.
  def slow
    @asked = params.fetch(:ms, 500).to_i.clamp(0, LONGEST)
    started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    sleep @asked / 1000.0
    @took = ((Process.clock_gettime(Process::CLOCK_MONOTONIC) - started) * 1000).round
  end

  # A page that has to ask others for each of its lines.
  def provision
    suppliers = Suppliers.place
    started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    @prices = Suppliers::GOODS.each_with_index.to_h do |goods, number|
      http = Net::HTTP.new("localhost", URI(suppliers.url).port)
      http.use_ssl = true
      http.ca_file = suppliers.ca_file
      [goods, http.get("/prices/#{number}").body]
    end
    @took = ((Process.clock_gettime(Process::CLOCK_MONOTONIC) - started) * 1000).round
  end

  # A page that fails, to see what is shown then.
  def oops
    raise "The cellar is flooded"
  end
end
