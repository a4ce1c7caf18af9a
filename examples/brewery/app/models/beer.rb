class Beer < ApplicationRecord
  belongs_to :brewery
  has_many :notes, dependent: :destroy

  validates :price, numericality: { greater_than: 0, less_than: 1000 }

  # Who changed it, and when: the page /audit.
  if defined?(Paceline::Audit)
    extend Paceline::Audit
    audits only: [:price]
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
