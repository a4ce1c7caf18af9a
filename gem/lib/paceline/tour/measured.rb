# frozen_string_literal: true

require "json"

module Paceline
  module Tour
    # The result of a run of `paceline bench`.
    class Measured
      # Names of parts for people.
      PARTS = { "front" => "the front", "queue" => "the queue", "sql" => "SQL", "views" => "views", "gc" => "the garbage collector",
                "app" => "the application's own code", "outbound" => "calls to other servers", "wait" => "the server", "connect" => "connecting" }.freeze
      MEDIAN = 50.0
      private_constant :MEDIAN

      # Measures URL by the tour's server.
      def self.of(served, url, load)
        file = served.file("measured.json")
        text, well = served.run("bench", "-q", *load, "--save", file, url)
        raise Served::Failed, "`paceline bench #{url}` failed: #{text.strip}" unless well
        read(file)
      end

      # A result that `paceline bench --save` wrote.
      def self.read(file)
        new(JSON.parse(File.read(file)))
      rescue JSON::ParserError, Errno::ENOENT
        raise Served::Failed, "`paceline bench` left no result"
      end

      def self.time(millis)
        return "#{(millis * 1000).round} us" if millis < 1
        millis < 10 ? format("%.1f ms", millis) : "#{millis.round} ms"
      end

      def self.bytes(count)
        count < 1024 ? "#{count} bytes" : format("%.1f KB", count / 1024.0)
      end

      def initialize(result)
        @result = result
      end

      # Milliseconds.
      def median
        @result.fetch("percentiles").find { |percentile| percentile["percent"] == MEDIAN }.fetch("ms")
      end

      def answers
        @result.fetch("answers")
      end

      # Requests without an answer, and answers of the classes 5xx.
      def failed
        @result.fetch("failures").values.sum + @result.fetch("statuses").sum { |status, count| status.to_i >= 500 ? count : 0 }
      end

      # The part with most of the median's time, and its share; nil if the server told none.
      def largest_part
        shares = @result.fetch("parts").find { |part| part["percent"] == MEDIAN } or return
        name, time = shares.fetch("parts").max_by(&:last)
        [name, time / shares.fetch("parts").values.sum] if name && time.positive?
      end
    end
  end
end
