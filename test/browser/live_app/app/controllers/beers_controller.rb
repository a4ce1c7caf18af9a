# One page with a form.
class BeersController < ActionController::Base
  layout "application"

  def index
    @beers = %w[Pils Alt Weizen]
  end
end
