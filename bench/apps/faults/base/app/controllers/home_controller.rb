class HomeController < ApplicationController
  def index
    @books = Book.order(id: :desc).limit(5)
  end
end
