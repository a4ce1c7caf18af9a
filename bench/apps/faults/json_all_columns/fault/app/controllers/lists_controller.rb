class ListsController < ApplicationController
  def index
    render json: Book.order(:id).limit(200)
  end
end
