# Answers as little as Rails can: what a request costs beside the page.
class PlainController < ApplicationController
  def show
    render plain: "Hello from the application\n"
  end
end
