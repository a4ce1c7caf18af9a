# The beer that goes on sale each day at noon, until midnight. RELEASE_AT=18:30 (or 18:30:15) is another time than noon, to see it soon.
class Release
  attr_reader :starts_at, :ends_at, :beer

  def self.today(now = Time.current)
    new(now.beginning_of_day)
  end

  def initialize(day)
    @starts_at = Time.zone.parse(ENV.fetch("RELEASE_AT", "12:00"), day)
    @ends_at = day + 1.day
    @beer = Beer.includes(:brewery).order(:id).offset(day.yday % Beer.count).first
  end

  def on_sale?(now = Time.current)
    now >= starts_at && now < ends_at
  end

  # When the page about it looks different next.
  def changes_at(now = Time.current)
    [starts_at, ends_at].find { |time| time > now }
  end
end
