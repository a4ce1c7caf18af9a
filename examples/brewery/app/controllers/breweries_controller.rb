class BreweriesController < ApplicationController
  def index
    @region = params[:region].presence
    @regions = Brewery.distinct.order(:region).pluck(:region)
    @breweries = Brewery.includes(:beers).order(:name)
    @breweries = @breweries.where(region: @region) if @region
  end

  def show
    @brewery = Brewery.includes(beers: :notes).find(params[:id])
  end
end
