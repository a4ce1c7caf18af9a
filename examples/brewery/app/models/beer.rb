class Beer < ApplicationRecord
  belongs_to :brewery
  has_many :notes, dependent: :destroy

  validates :name, :style, :about, presence: true
  validates :abv, :ibu, :ebc, numericality: true
  validates :price, numericality: { greater_than: 0, less_than: 1000 }

  # Who changed it, and when: the pages /audit and /admin/beers/1.
  if defined?(Paceline::Audit)
    extend Paceline::Audit
    audits
  end

  scope :matching, ->(words) {
    where("beers.name LIKE :q OR style LIKE :q", q: "%#{sanitize_sql_like(words)}%")
  }

  def label
    LabelFile.for(self)
  end

  def score
    notes.select(&:persisted?).map(&:score).then { |scores| scores.sum.fdiv(scores.size).round(1) if scores.any? }
  end
end
