# frozen_string_literal: true

# Named times within the request in hand; the front shows them in its log. Keeps nothing past the request.
module Paceline
  # Times the block under `name` (total and count travel with the response). Answers what the block does.
  def self.span(name)
    started = Process.clock_gettime(Process::CLOCK_MONOTONIC, :float_microsecond)
    begin
      yield
    ensure
      entry = ((Thread.current[:paceline_spans] ||= {})[name.to_s] ||= [0.0, 0])
      entry[0] += Process.clock_gettime(Process::CLOCK_MONOTONIC, :float_microsecond) - started
      entry[1] += 1
    end
  end
end
