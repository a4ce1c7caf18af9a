class ApplicationController < ActionController::Base
  before_action :keep_from_caches

  private

  # Pages greet the customer, so no cache may keep them.
  def keep_from_caches
    @customer = cookies[:customer]
    response.headers["Cache-Control"] = "private, no-store"
  end
end
