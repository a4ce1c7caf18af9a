class FeedController < ApplicationController
  def show
    @books = Book.order(id: :desc).limit(60)
  end
end
