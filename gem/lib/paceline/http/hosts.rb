# frozen_string_literal: true

# Which hosts Net::HTTP reaches over lent connections: those that `install!` was told.
module Paceline
  module HTTP
    module Hosts
      @only = @except = nil
      @on = false

      class << self
        # Raises ArgumentError for what is no pattern.
        def set(only, except)
          @only, @except = [only, except].map { |list| list && Array(list).map { |pattern| check(pattern) } }
          @on = true
        end

        def clear
          @on = false
        end

        def ride?(host)
          @on && (@only.nil? || any?(@only, host)) && (@except.nil? || !any?(@except, host))
        end

        private

        def any?(patterns, host)
          patterns.any? { |pattern| pattern.is_a?(Regexp) ? pattern.match?(host) : matches?(pattern, host.downcase) }
        end

        # "*.example.org": every host below.
        def matches?(pattern, host)
          pattern.start_with?("*.") ? host.end_with?(pattern[1..]) : pattern == host
        end

        def check(pattern)
          case pattern
          when Regexp then pattern
          when /\A(\*\.)?[^*\/\s]+\z/ then pattern.downcase
          else raise ArgumentError, "#{pattern.inspect} is not a host: use names, \"*.example.org\" or Regexps"
          end
        end
      end
    end
  end
end
