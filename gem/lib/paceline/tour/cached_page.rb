# frozen_string_literal: true

require_relative "measured"

module Paceline
  module Tour
    # One page and the rule that keeps it, as one visitor sees it: with the cookies that the first answer sets.
    class CachedPage
      TTL = "10s"
      private_constant :TTL

      def initialize(served, path)
        @served = served
        @path = path
        @cookies = served.get(path).get_fields("set-cookie").to_a.map { |field| field[/\A[^;]+/] }
      end

      def visitors?
        @cookies.any?
      end

      # The lines of paceline.toml.
      def settings
        lines = ["[[cache]]", "path = #{@path.split("?").first.to_json}", "ttl = #{TTL.to_json}"]
        lines.push("cookies = #{names.to_json}", 'set_cookie = "strip"') if visitors?
        "#{lines.join("\n")}\n"
      end

      def measure(load)
        cookies = @cookies.flat_map { |cookie| ["-C", cookie] }
        Measured.of(@served, @served.url(@path), load + cookies)
      end

      # Asks twice: the second answer says whether the first was stored.
      def visit
        2.times { @last = @served.get(@path, cookie: @cookies.empty? ? nil : @cookies.join("; ")) }
      end

      def hit?
        status.match?(/;\s*hit\b/)
      end

      # As Cache-Status says.
      def reason
        status[/detail=("?)([^";,]+)\1/, 2] || status[/fwd=([\w-]+)/, 1] || "the answer was #{@last.code}"
      end

      private

      def status
        @last["cache-status"].to_s
      end

      def names
        @cookies.map { |cookie| cookie.split("=").first }
      end
    end
  end
end
