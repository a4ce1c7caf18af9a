class Note < ApplicationRecord
  belongs_to :beer, touch: true

  if defined?(Paceline::Audit)
    extend Paceline::Audit
    audits
  end

  validates :author, presence: true, length: { maximum: 60 }
  validates :score, inclusion: { in: 1..5, message: "is one to five" }
  validates :body, length: { in: 10..2000 }
end
