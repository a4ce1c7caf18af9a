class LabelsController < ApplicationController
  before_action { @beer = Beer.find(params[:beer_id]) }

  rescue_from LabelFile::Refused do |refused|
    redirect_to @beer, alert: refused.message
  end

  def show
    label = @beer.label or raise ActionController::RoutingError, "no label yet"
    send_file label.path, type: label.type, disposition: "inline"
  end

  def create
    LabelFile.store(@beer, params[:picture])
    redirect_to @beer, notice: "The label is on the bottle."
  end

  def destroy
    @beer.label&.delete
    redirect_to @beer, notice: "The label is off."
  end
end
