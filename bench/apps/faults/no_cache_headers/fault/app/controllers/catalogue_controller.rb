class CatalogueController < ApplicationController
  skip_before_action :keep_from_caches

  def index
    @books = Book.order(:id).limit(250)
  end
end
