# frozen_string_literal: true

# The class that apps rescue. Its file needs nothing else of REXML and is small; the rest of REXML is not loaded.
begin
  require "rexml/parseexception"
rescue LoadError
  # A bundle without rexml: what it would be, as far as anybody who rescues it can tell.
  module REXML
    class ParseException < RuntimeError
    end
  end
end

module Paceline
  module XML
    # A document is not well-formed, is beyond a limit, or is in no encoding that is known. The message says what and where.
    class ParseError < REXML::ParseException
      # Counted from 1, in characters of the document as UTF-8; nil if the mistake has no place.
      attr_reader :line, :column

      def initialize(message, line = 0, column = 0)
        @line, @column = line, column if line.positive?
        super(line.positive? ? "#{message} (line #{line}, column #{column})" : message)
      end

      # REXML's means a position in its source; here it is the column.
      alias position column

      # REXML's adds what it has not read yet.
      def to_s
        RuntimeError.instance_method(:to_s).bind_call(self)
      end
    end
  end
end
