class StarsController < ApplicationController
  def index
    @book = Book.find(17)
    @stars = Rating.where(book_id: @book.id).order(:id).pluck(:stars)
  end
end
