class Rating < ApplicationRecord
  belongs_to :book
end
