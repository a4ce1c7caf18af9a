# frozen_string_literal: true

# Response headers as the pairs of a frame. Refuses what could break the response apart; never adds a header.
require_relative "../errors"

module Paceline
  module Server
    class Headers
      TOKEN = /\A[!#$%&'*+\-.^_`|~0-9A-Za-z]+\z/
      SPECIAL = /[\r\n\0]/
      KNOWN_MAX = 1000
      private_constant :TOKEN, :SPECIAL, :KNOWN_MAX

      # Subclasses of Hash whose pairs are what `each` yields, as long as the values are strings.
      def self.plain_hashes
        [("Rack::Headers" if defined?(::Rack::Headers)), ("Rack::Utils::HeaderHash" if defined?(::Rack::Utils::HeaderHash))]
          .compact.map { |name| Object.const_get(name) }.uniq
      end

      # Names checked once: name => name, or false for one that stays in the worker.
      def initialize
        @known = {}
      end

      # The `rack.hijack` header, if there is one.
      attr_reader :hijack

      def encode(headers)
        @hijack = nil
        out = String.new(capacity: 512, encoding: Encoding::BINARY)
        headers&.each do |name, value|
          known = @known[name]
          known = check_name(name) if known.nil?
          if known == false
            @hijack = value if name == "rack.hijack"
          elsif value.is_a?(Array)
            value.each { |single| put(out, known, single) }
          else
            put(out, known, value)
          end
        end
        out
      end

      private

      def put(out, name, value)
        return if value.nil?
        value = value.to_s
        value = value.b unless value.ascii_only?
        return split(out, name, value) if value.match?(SPECIAL)
        out << name << "\0" << value << "\0"
      end

      def split(out, name, value)
        raise InvalidResponse, "header #{name} has a value with CR or NUL: #{value.inspect}" if value.match?(/[\r\0]/)
        value.each_line("\n", chomp: true) { |line| out << name << "\0" << line << "\0" unless line.empty? }
      end

      def check_name(name)
        text = name.to_s
        if text.start_with?("rack.")
          known = false
        elsif text.ascii_only? && text.match?(TOKEN)
          known = text.dup.freeze
        else
          raise InvalidResponse, "header name #{text.inspect} is not a token"
        end
        @known[name] = known if @known.size < KNOWN_MAX
        known
      end
    end
  end
end
