# frozen_string_literal: true

# Named times within the request in hand; the front shows them in its log. Keeps nothing past the request.
module Paceline
  # Times the block under `name` (total and count travel with the response). Answers what the block does.
  def self.span(name)
    started = Process.clock_gettime(Process::CLOCK_MONOTONIC, :float_microsecond)
    begin
      yield
    ensure
      add_span(name.to_s, Process.clock_gettime(Process::CLOCK_MONOTONIC, :float_microsecond) - started)
    end
  end

  # @api private Adds so many microseconds, measured elsewhere, to the span `name`.
  def self.add_span(name, microseconds)
    entry = ((Thread.current[:paceline_spans] ||= {})[name] ||= [0.0, 0])
    entry[0] += microseconds
    entry[1] += 1
  end
end
