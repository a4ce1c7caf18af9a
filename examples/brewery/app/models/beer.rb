class Beer < ApplicationRecord
  belongs_to :brewery
  has_many :notes, dependent: :destroy

  scope :matching, ->(words) {
    where("beers.name LIKE :q OR style LIKE :q", q: "%#{sanitize_sql_like(words)}%")
  }

  def label
    LabelFile.for(self)
  end

  def score
    notes.map(&:score).then { |scores| scores.sum.fdiv(scores.size).round(1) if scores.any? }
  end
end
