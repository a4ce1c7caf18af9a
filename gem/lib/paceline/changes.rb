# frozen_string_literal: true

# When the page in hand will look different: the front gives the page of before until then, and the one of after from then on (docs/scheduled-pages.md).
# Without Paceline's front it does nothing.
module Paceline
  # Says in an action that its page looks different from `time` on: a Time, a DateTime, a Date (its beginning, in Rails' Time.zone if there is one), seconds
  # since the Unix epoch, or nil for never. May be called several times; the sixteen nearest are told. Answers `time`.
  #
  #     Paceline.changes_at(sale.starts_at)
  def self.changes_at(time)
    return if time.nil?

    raise ArgumentError, "a time is no String: #{time.inspect}" if time.is_a?(String)
    moment = time
    moment = time.respond_to?(:in_time_zone) ? time.in_time_zone : time.to_time unless time.respond_to?(:to_f)
    seconds = moment.to_f
    return time unless seconds.finite? && seconds.positive?

    told = (Thread.current[:paceline_changes_at] ||= [])
    told << seconds unless told.include?(seconds)
    return time if told.size <= 16

    # What has come is no news; of the others those that come last are said again by the pages of the nearer ones.
    now = Process.clock_gettime(Process::CLOCK_REALTIME)
    told.delete(told.find { |at| at <= now } || told.max)
    time
  end
end
