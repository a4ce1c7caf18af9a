class SeenController < ApplicationController
  def index
    session[:seen] = Book.order(:id).limit(36).as_json(only: %i[id title cents])
    render plain: "You have seen #{session[:seen].size} books."
  end
end
