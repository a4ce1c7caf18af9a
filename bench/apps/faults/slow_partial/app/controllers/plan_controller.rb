class PlanController < ApplicationController
  def index
    @books = Book.order(:id).limit(30)
  end
end
