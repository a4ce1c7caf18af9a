# frozen_string_literal: true

require "json"

module Paceline
  module Session
    # Values as bytes, one at a time, so that what one request changes in a session leaves the rest to others. `mark` is kept with a session:
    # it is read only by what wrote it.
    module Serializers
      # By name, or any object with `dump(value)` → String and `load(String)` → value.
      def self.named(serializer)
        case serializer
        when :marshal then Native
        when :json then Plain
        else
          unless serializer.respond_to?(:dump) && serializer.respond_to?(:load)
            raise ArgumentError, "serializer: must be :marshal, :json, or an object with dump and load; not #{serializer.inspect}"
          end
          Foreign.new(serializer)
        end
      end

      # Ruby's Marshal: any object. Loading it runs code of its author.
      module Native
        module_function

        def mark = "m"
        def code? = true

        def dump(name, value)
          Marshal.dump(value)
        rescue TypeError => e
          raise NotSerializable, "session[#{name.inspect}] can't be stored: #{e.message}"
        end

        def load(bytes) = Marshal.load(bytes)
      end

      # JSON: what comes back as it was. Symbols come back as Strings, as in Rails' cookies; all else is refused rather than changed.
      module Plain
        module_function

        def mark = "j"
        def code? = false

        def dump(name, value)
          check(name, value)
          JSON.generate(value).force_encoding(Encoding::BINARY)
        rescue JSON::JSONError, EncodingError => e
          raise NotSerializable, "session[#{name.inspect}] can't be stored as JSON: #{e.message}"
        end

        def load(bytes)
          JSON.parse(bytes)
        rescue JSON::ParserError => e
          raise Unavailable, "a value of a session is damaged: #{e.message}"
        end

        def check(name, value)
          case value
          when nil, true, false, Integer, Float, String, Symbol then nil
          when Array then value.each { |one| check(name, one) }
          when Hash
            value.each do |key, one|
              refuse(name, "a Hash with #{key.class} as a key") unless key.is_a?(String) || key.is_a?(Symbol)
              check(name, one)
            end
          else refuse(name, "a #{value.class}")
          end
        end

        def refuse(name, what)
          raise NotSerializable, "session[#{name.inspect}] can't be stored as JSON: it has #{what}. " \
                                 "Keep what JSON knows (strings, numbers, true, false, nil, lists, hashes by strings), or use `serializer: :marshal`"
        end
      end

      # Somebody's own.
      Foreign = Struct.new(:by) do
        def mark = "x"
        def code? = by.equal?(Marshal)
        def dump(_name, value) = by.dump(value).b
        def load(bytes) = by.load(bytes)
      end
    end
    private_constant :Serializers
  end
end
