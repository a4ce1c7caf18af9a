# frozen_string_literal: true

# What came of a call of Paceline::HTTP: a response, or the error in place of one.
module Paceline
  module HTTP
    class Response
      # The error, or nil.
      attr_reader :error

      # `got`: a Net::HTTPResponse whose body was read, or an exception.
      def initialize(got, url)
        @url = url
        got.is_a?(Exception) ? @error = got : @got = got
      end

      # The URL that was asked for.
      attr_reader :url

      # 200. Raises the error, if there was one; so do all below.
      def status
        got.code.to_i
      end

      # Whether the status is 2xx. Without a response: false.
      def ok?
        @error.nil? && status.between?(200, 299)
      end

      def reason
        got.message
      end

      # The value of a field, whatever the case of its name; several are joined by ", ". Nil: there is none.
      def [](name)
        got[name]
      end

      # {"content-type" => "text/html"}: names in small letters, several values joined by ", ".
      def headers
        @headers ||= got.each_header.to_h
      end

      # The body, decompressed, in the charset that its Content-Type names, else as bytes. Nil: there can't be one (HEAD, 204, 304), or it was
      # given to a block.
      def body
        @body ||= in_charset(got.body)
      end

      # The body as JSON says it. Raises JSON::ParserError.
      def json
        require "json"
        JSON.parse(body.dup.force_encoding(Encoding::UTF_8))
      end

      # The Net::HTTPResponse.
      def to_net_http
        got
      end

      # Itself. Raises the error, or Net::HTTPClientException and its like for a status that is no 2xx.
      def value
        got.value
        self
      end

      def inspect
        "#<#{self.class} #{@url} #{@error ? @error.inspect : "#{status} #{reason}"}>"
      end

      private

      def got
        raise @error if @error

        @got
      end

      def in_charset(body)
        return body unless body.is_a?(String)

        charset = got.type_params["charset"]
        body.force_encoding(charset ? Encoding.find(charset) : Encoding::BINARY)
      rescue ArgumentError # a charset that Ruby does not know
        body.force_encoding(Encoding::BINARY)
      end
    end
  end
end
