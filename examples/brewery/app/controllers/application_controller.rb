class ApplicationController < ActionController::Base
  protect_from_forgery with: :exception

  private

  # Answers with a PageUpdate, to which the block may add: `render :update`, as it was in Rails 2.
  def render_update(page = PageUpdate.new(view_context), status: :ok)
    yield page if block_given?
    render body: page.to_s, content_type: PageUpdate::TYPE, status: status
  end

  # The last few beers this visitor looked at live in the session.
  def recent_beers
    ids = Array(session[:recent])
    Beer.includes(:brewery).where(id: ids).sort_by { |beer| ids.index(beer.id) }
  end
  helper_method :recent_beers
end
