# frozen_string_literal: true

# The form in which records go to the front: fields that each end with NUL (crates/auto-cache, wire.rs). Decides nothing.
module Paceline
  module AutoCache
    module Encoding
      module_function

      # A bound value. What has no form that both sides compare alike is "?": unknown.
      def value(value)
        case value
        when nil then "n"
        when true then "b1"
        when false then "b0"
        when Integer then value.bit_length < 64 ? "i#{value}" : "?"
        when Float then value.finite? ? "r#{value}" : "?"
        when Symbol then value(value.name)
        when String then text(value)
        else "?"
        end
      end

      # Appends fields to a record. A NUL within one can't be carried.
      def append(out, *fields)
        fields.each do |field|
          field = clean(field)
          out << field << "\0"
        end
        out
      end

      def text(value)
        return "?" if value.encoding == ::Encoding::BINARY && !value.ascii_only?

        utf8 = value.encoding == ::Encoding::UTF_8 || value.ascii_only? ? value : value.encode(::Encoding::UTF_8)
        utf8.valid_encoding? && !utf8.include?("\0") ? "t#{utf8}" : "?"
      rescue EncodingError
        "?"
      end

      def clean(field)
        field = field.to_s
        field = field.dup.force_encoding(::Encoding::UTF_8) unless field.encoding == ::Encoding::UTF_8
        field = field.scrub unless field.valid_encoding?
        field.include?("\0") ? field.delete("\0") : field
      end
    end
  end
end
