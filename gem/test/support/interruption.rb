# frozen_string_literal: true

# What another thread may do to this one (Timeout, Thread#kill), at a moment of the test's choice: whenever a method that is written in C returns.
module Interruption
  class Stopped < Exception; end # rubocop:disable Lint/InheritException -- nothing rescues it, as with Thread#kill

  # Has something raised at the return of so many calls within the block. False if there were fewer. What may not be interrupted is not.
  def stopped?(calls)
    left = calls
    here = Thread.current
    trace = TracePoint.new(:c_return) do |call|
      # Minitest has threads of its own.
      next unless Thread.current.equal?(here)
      # What Ruby does with numbers is a call only when it is traced. And Ruby itself ends if one exception comes while another is made.
      next if call.self.is_a?(Integer) || call.self.is_a?(Exception) || (call.self.is_a?(Class) && call.self <= Exception)

      Thread.current.raise(Stopped) if (left -= 1).zero?
    end
    begin
      trace.enable { yield }
      left <= 0
    rescue Stopped
      true
    end
  end
end
