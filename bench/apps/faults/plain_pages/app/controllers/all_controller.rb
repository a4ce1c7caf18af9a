class AllController < ApplicationController
  def index
    @books = Book.order(:id).limit(300)
  end
end
