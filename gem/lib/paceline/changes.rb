# frozen_string_literal: true

# When the page in hand will look different: the front gives the page of before until then, and the one of after from then on (docs/scheduled-pages.md).
# Without Paceline's front it does nothing.
module Paceline
  # Says in an action that its page looks different from `time` on: a Time, a DateTime, a Date (its beginning), seconds since the Unix epoch, or nil for
  # never. May be called several times; sixteen times are told. Answers `time`.
  #
  #     Paceline.changes_at(sale.starts_at)
  def self.changes_at(time)
    return if time.nil?

    raise ArgumentError, "a time is no String: #{time.inspect}" if time.is_a?(String)
    seconds = (time.respond_to?(:to_f) ? time : time.to_time).to_f
    told = (Thread.current[:paceline_changes_at] ||= [])
    told << seconds if seconds.finite? && seconds.positive? && told.size < 16
    time
  end
end
