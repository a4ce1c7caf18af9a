class BasketController < ApplicationController
  def show
    @books = Book.order(:id).limit(5).to_a
    @total = (1..Rules::COUNT).sum { |number| Rules.const_get(format("Rule%03d", number)).apply(@books.sum(&:cents)) }
  end
end
