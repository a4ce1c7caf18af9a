class Brewery < ApplicationRecord
  has_many :beers, dependent: :destroy

  if defined?(Paceline::Audit)
    extend Paceline::Audit
    audits
  end

  validates :name, uniqueness: true
  validates :name, :town, :region, :country, :about, presence: true
  validates :founded, numericality: { only_integer: true }

  scope :matching, ->(words) {
    where("name LIKE :q OR town LIKE :q OR region LIKE :q", q: "%#{sanitize_sql_like(words)}%")
  }
end
