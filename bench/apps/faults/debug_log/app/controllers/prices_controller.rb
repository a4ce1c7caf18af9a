class PricesController < ApplicationController
  def index
    @books = Book.order(:cents, :id).limit(60).to_a
    @prices = @books.map { |book| discounted(book) }
  end

  private

  def discounted(book)
    price = book.cents
    [1, 2, 1, 3, 2, 1, 4, 2].each do |percent|
      price -= price * percent / 100
      logger.debug("price of book #{book.id} after #{percent} %: #{price}")
    end
    price
  end
end
