# Prices are the cellar's affair.
class PricesController < ApplicationController
  include SignedIn

  before_action :sign_in

  def update
    beer = Beer.find(params[:beer_id])
    if beer.update(price: params.require(:beer)[:price])
      redirect_to beer, notice: "#{beer.name} costs € #{helpers.number_with_precision(beer.price, precision: 2)} from now on."
    else
      redirect_to beer, alert: beer.errors.full_messages.to_sentence
    end
  end
end
