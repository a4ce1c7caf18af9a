# One page with a form.
class BeersController < ActionController::Base
  def index
    @beers = %w[Pils Alt Weizen]
  end
end
