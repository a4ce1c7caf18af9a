class Brewery < ApplicationRecord
  has_many :beers, dependent: :destroy

  scope :matching, ->(words) {
    where("name LIKE :q OR town LIKE :q OR region LIKE :q", q: "%#{sanitize_sql_like(words)}%")
  }
end
