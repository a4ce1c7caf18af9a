class TermsController < ApplicationController
  def index
    @books = Book.order(:id).limit(20)
    @terms = Terms.all
  end
end
