class SearchController < ApplicationController
  def index
    @books = Book.where("blurb LIKE ?", "%reed quay%").order(:id).limit(20).to_a
    @stars = Rating.where(book_id: @books.map(&:id)).group(:book_id).average(:stars)
  end
end
