# frozen_string_literal: true

require "digest"

module Paceline
  class PStore
    # Names of roots as keys of records. Names are equal as keys of a Hash are, so that a key has to be the same for every two names of which
    # `eql?` says so: that is known for Strings, Symbols, Integers, nil, true and false. Records of other names are found by their number, and
    # compared one by one.
    module Names
      # LMDB takes 511 bytes; a longer key is its digest.
      LONGEST = 480
      private_constant :LONGEST

      module_function

      # The key, or nil if it has to be looked for.
      def key_of(name)
        case name
        when nil then "n"
        when true then "t"
        when false then "f"
        when Integer then shortened("i#{name}")
        when Symbol then shortened(":#{text(name.name)}")
        when String then shortened("s#{text(name)}") if name.instance_of?(String)
        end
      end

      # Bytes and encoding. Text in ASCII is equal in every encoding that ASCII is a part of.
      def text(string)
        string.ascii_only? ? "\0#{string}" : "#{string.encoding.name}\0".b << string.b
      end

      def shortened(key)
        key = key.b
        key.bytesize > LONGEST ? "#{key[0]}\0\0#{Digest::SHA256.digest(key)}".b : key
      end
    end
    private_constant :Names
  end
end
