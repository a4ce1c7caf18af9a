class FeedsController < ApplicationController
  def show
    @beers = Beer.includes(:brewery, :notes).order(updated_at: :desc, id: :desc)
  end
end
