# frozen_string_literal: true

module Paceline
  module Session
    # A session as it is kept: the mark of its serializer, when it began and when it expires (milliseconds since 1970), and the bytes of each
    # of its values by name. What a request has loaded of it is what its changes are told by. `packed`: the String that it was read from, if it was one.
    Record = Struct.new(:format, :created, :expires, :fields, :packed) do
      # Of a session that is not kept yet.
      def self.none
        new(nil, nil, nil, {})
      end

      def kept?
        !created.nil?
      end

      # The fields with these changes (bytes, or nil for what is gone).
      def changed(changes)
        fields.merge(changes).compact
      end
    end

    # A Record as one String.
    #
    #     version, format (1 byte each), created, expires (8 each), number of fields, sizes of name and value of each (4 each), names and values
    module Packed
      VERSION = 1
      HEAD = "CaQ<Q<V"
      HEAD_SIZE = 22
      private_constant :VERSION, :HEAD, :HEAD_SIZE

      module_function

      def pack(record)
        sizes = []
        record.fields.each { |name, bytes| sizes << name.bytesize << bytes.bytesize }
        packed = [VERSION, record.format, record.created, record.expires, record.fields.size, *sizes].pack("#{HEAD}V*")
        record.fields.each { |name, bytes| packed << (name.ascii_only? ? name : name.b) << bytes }
        packed
      end

      # Raises Unavailable for what is of another version.
      def unpack(packed)
        version, format, created, expires, count = packed.unpack(HEAD)
        raise Unavailable, "a session of format #{version.inspect}, which this version of the gem paceline can't read" unless version == VERSION

        sizes = packed.unpack("V#{count * 2}", offset: HEAD_SIZE)
        at = HEAD_SIZE + (count * 8)
        fields = {}
        nth = 0
        while nth < sizes.size
          name = packed.byteslice(at, sizes[nth]).force_encoding(Encoding::UTF_8)
          at += sizes[nth]
          fields[name] = packed.byteslice(at, sizes[nth + 1])
          at += sizes[nth + 1]
          nth += 2
        end
        Record.new(format, created, expires, fields, packed)
      end
    end
  end
end
