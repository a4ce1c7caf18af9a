class WishesController < ApplicationController
  def show
    wishes = store.transaction(true) { |lists| lists["customer-#{params.fetch(:customer, 17)}"] }
    render plain: wishes.join("\n")
  end

  private

  def store = PStore.new(Rails.root.join("storage/wishes.pstore").to_s)
end
