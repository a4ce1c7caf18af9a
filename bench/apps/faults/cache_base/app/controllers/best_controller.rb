class BestController < ApplicationController
  def index
    render plain: Best.ids.join(",")
  end
end
