class HealthController < ActionController::Base
  def show
    render html: '<!DOCTYPE html><html><body style="background-color: green"></body></html>'.html_safe
  end
end
