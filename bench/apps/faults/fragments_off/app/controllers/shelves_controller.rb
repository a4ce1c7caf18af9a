class ShelvesController < ApplicationController
  def index
    @newest = Book.maximum(:id)
  end
end
