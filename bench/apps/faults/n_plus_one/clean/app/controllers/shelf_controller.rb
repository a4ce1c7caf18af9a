class ShelfController < ApplicationController
  def index
    @books = Book.includes(:author).order(:id).limit(40)
  end
end
