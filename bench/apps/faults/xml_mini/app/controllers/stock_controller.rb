class StockController < ApplicationController
  def index
    stock = Hash.from_xml(Rails.root.join("storage/stock.xml").read)
    @books = stock.fetch("stock").fetch("book")
  end
end
