class CatalogueController < ApplicationController
  skip_before_action :keep_from_caches

  def index
    expires_in 1.minute, public: true
    @books = Book.order(:id).limit(250)
  end
end
