# frozen_string_literal: true

module Paceline
  # Sessions at rest: what is kept of them, and how it changes. Knows nothing of cookies, which are Rack's.
  module Session
    # What all errors here are.
    class Error < StandardError; end

    # The store can't be reached, or is damaged or full. Sessions are never taken for empty then: the request fails, with the reason as `cause`.
    class Unavailable < Error; end

    # A value can't be kept by the serializer in use.
    class NotSerializable < Error; end

    # The session has more bytes than `max_size`. Nothing of it was saved.
    class TooLarge < Error
      # Values named in the message.
      NAMED = 3
      private_constant :NAMED

      # Raises it if these fields, a Hash of names to bytes, are more than `max_size` bytes together.
      def self.check(fields, max_size)
        size = Session.size(fields)
        return if size <= max_size

        largest = fields.sort_by { |_, bytes| -bytes.bytesize }.first(NAMED)
        raise new("the session has #{size} bytes, more than max_size = #{max_size}; " \
                  "the largest: #{largest.map { |name, bytes| "#{name.inspect} #{bytes.bytesize}" }.join(", ")}")
      end
    end

    # Bytes of these fields with their names.
    def self.size(fields)
      fields.sum { |name, bytes| name.bytesize + bytes.bytesize }
    end
  end
end
