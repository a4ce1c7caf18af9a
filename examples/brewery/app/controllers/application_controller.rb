class ApplicationController < ActionController::Base
  protect_from_forgery with: :exception

  private

  # The last few beers this visitor looked at live in the session.
  def recent_beers
    ids = Array(session[:recent])
    Beer.includes(:brewery).where(id: ids).sort_by { |beer| ids.index(beer.id) }
  end
  helper_method :recent_beers
end
