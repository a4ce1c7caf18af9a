class SeenController < ApplicationController
  def index
    session[:seen] = Book.order(:id).limit(36).ids
    render plain: "You have seen #{session[:seen].size} books."
  end
end
