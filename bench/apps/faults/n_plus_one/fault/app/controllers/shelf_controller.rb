class ShelfController < ApplicationController
  def index
    @books = Book.order(:id).limit(40)
  end
end
