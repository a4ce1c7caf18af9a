class BeersController < ApplicationController
  PAGE = 24

  def index
    @style = params[:style].presence
    @styles = Beer.distinct.order(:style).pluck(:style)
    @page = [params[:page].to_i, 1].max
    beers = Beer.includes(:brewery).order(:name)
    beers = beers.where(style: @style) if @style
    @pages = (beers.count / PAGE.to_f).ceil
    @beers = beers.limit(PAGE).offset((@page - 1) * PAGE)
  end

  def show
    @beer = Beer.includes(:brewery, :notes).find(params[:id])
    @note = @beer.notes.build(author: session[:author], score: 4)
    session[:recent] = [@beer.id, *Array(session[:recent])].uniq.first(4)
  end
end
