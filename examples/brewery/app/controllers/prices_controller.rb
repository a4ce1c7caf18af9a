# Prices are the cellar's affair. A real application has users; here anybody has the name they give, and the cellar's password.
class PricesController < ApplicationController
  before_action :sign_in

  def update
    beer = Beer.find(params[:beer_id])
    if beer.update(price: params.require(:beer)[:price])
      redirect_to beer, notice: "#{beer.name} costs € #{helpers.number_with_precision(beer.price, precision: 2)} from now on."
    else
      redirect_to beer, alert: beer.errors.full_messages.to_sentence
    end
  end

  private

  # As a server does it that has authenticated somebody: REMOTE_USER is whom Paceline.current.user finds.
  def sign_in
    return if request.env["REMOTE_USER"].present?

    authenticate_or_request_with_http_basic("The cellar") do |name, password|
      good = ActiveSupport::SecurityUtils.secure_compare(password, ENV.fetch("CELLAR_PASSWORD", "cellar"))
      request.env["REMOTE_USER"] = name if good && name.present?
    end
  end
end
