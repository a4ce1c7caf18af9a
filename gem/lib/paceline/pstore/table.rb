# frozen_string_literal: true

require_relative "sharing"

module Paceline
  class PStore
    # The roots as a transaction sees them: loaded when they are asked for, each on its own, so that one that can't be loaded (its class is
    # gone) is in nobody else's way. `changes` tells which records are different from what was loaded.
    #
    # | key | value |
    # | --- | --- |
    # | `r` key of the name | number (8 bytes), kind, length of the name (4 bytes), name, then by kind: the value; or the number of its group |
    # | `x` number | the same, for names that have no key |
    # | `g` number | roots that hold a common object: an Array of names and values |
    # | `n` | the number that the next root or group gets |
    #
    # Numbers are big-endian and grow, so that roots are listed in the order in which they came. Names and values are in Marshal's format.
    class Table
      ALONE = 0
      GROUPED = 1
      # Bytes in front of a name.
      HEAD = 13
      # Records that are looked at together when all names are wanted.
      SLICE = 1000
      NEXT = "n"
      private_constant :ALONE, :GROUPED, :HEAD, :SLICE, :NEXT

      # A root as it is stored: its record's key and number; what is in front of the bytes of its value; these, or its group's number.
      StoredRecord = Struct.new(:key, :number, :name, :head, :bytes, :group)
      private_constant :StoredRecord

      def initialize(records)
        @records = records
        @values = {}
        # By name, for all that were looked up: nil for those that are not stored.
        @stored = {}
        @groups = {}
        @deleted = {}
      end

      def key?(name)
        @values.key?(name) || (!@deleted.key?(name) && !stored(name).nil?)
      end

      def [](name)
        return @values[name] if @values.key?(name)
        return if @deleted.key?(name)

        found = stored(name)
        load_value(found) if found
        @values[name]
      end

      def []=(name, value)
        stored(name)
        name = name.dup.freeze if name.instance_of?(String) && !name.frozen?
        @values[name] = value
      end

      def delete(name)
        return unless key?(name)

        value = self[name]
        @values.delete(name)
        @deleted[name] = true if stored(name)
        value
      end

      def keys
        names = all_stored.reject { |found| @deleted.key?(found.name) }.map(&:name)
        known = names.to_h { |name| [name, true] }
        names + @values.keys.reject { |name| known.key?(name) }
      end

      # The records to be written, or to be gone (nil), by their keys.
      def changes
        changes = {}
        @next = nil
        @numbers = {}
        drop_deleted(changes)
        # In the order in which they were set, whatever is stored first.
        @values.each_key { |name| @numbers[name] = next_number unless @stored[name] }
        Sharing.groups(@values).each do |names|
          names.size == 1 ? save_alone(names.first, changes) : save_group(names, changes)
        end
        drop_old_groups(changes)
        changes[NEXT] = [@next].pack("Q>") if @next
        changes
      end

      private

      def stored(name)
        @stored.fetch(name) do
          name = name.dup.freeze if name.instance_of?(String) && !name.frozen?
          @stored[name] = look_up(name)
        end
      end

      def look_up(name)
        key = Names.key_of(name)
        return unusual[name] unless key

        key = "r#{key}"
        bytes = @records.get(key)
        # Whatever is stored under its key has this name, which need not be loaded.
        bytes && parse(key, bytes) { name }
      end

      # Roots whose names have no key. There are seldom any.
      def unusual
        @unusual ||= scan("x").to_h { |found| [found.name, found] }
      end

      def all_stored
        @all_stored ||= (scan("r") + unusual.values).sort_by(&:number).each { |found| @stored[found.name] ||= found }
      end

      def scan(kind)
        found = []
        from = kind
        loop do
          slice = @records.scan(from, SLICE)
          slice.each { |key, bytes| found << parse(key, bytes) if key.start_with?(kind) }
          break if slice.size < SLICE || !slice.last[0].start_with?(kind)

          from = "#{slice.last[0]}\0".b
        end
        found
      end

      def parse(key, bytes)
        start = HEAD + bytes.unpack1("N", offset: HEAD - 4)
        name = block_given? ? yield : Marshal.load(bytes.byteslice(HEAD, start - HEAD))
        name.freeze if name.is_a?(String)
        grouped = bytes.getbyte(8) == GROUPED
        StoredRecord.new(key, bytes.unpack1("Q>"), name, bytes.byteslice(0, start), grouped ? nil : bytes.byteslice(start, bytes.bytesize),
                   grouped ? bytes.unpack1("Q>", offset: start) : nil)
      end

      def load_value(found)
        return @values[found.name] = Marshal.load(found.bytes) unless found.group

        group_bytes = group(found.group)
        Marshal.load(group_bytes).each do |name, value|
          # What has been set or deleted meanwhile stays so, and what has left the group since is elsewhere.
          next if @values.key?(name) || @deleted.key?(name)

          @values[name] = value if stored(name)&.group == found.group
        end
      end

      def group(number)
        @groups[number] ||= @records.get(group_key(number)) || raise(Records::Damaged, "a group of roots is missing")
      end

      def group_key(number)
        "g#{[number].pack("Q>")}".b
      end

      def next_number
        @next ||= @records.get(NEXT)&.unpack1("Q>") || 0
        (@next += 1) - 1
      end

      def drop_deleted(changes)
        @deleted.each_key do |name|
          changes[@stored[name].key] = nil
          # Set again after it was deleted: it is the last one now.
          @stored[name] = nil if @values.key?(name)
        end
      end

      def save_alone(name, changes)
        bytes = Marshal.dump(@values[name])
        found = @stored[name]
        return if found && found.group.nil? && found.bytes == bytes

        write(name, found, ALONE, bytes, changes)
      end

      def save_group(names, changes)
        bytes = Marshal.dump(names.map { |name| [name, @values[name]] })
        numbers = names.map { |name| @stored[name]&.group }.uniq
        number = numbers.first if numbers.size == 1
        return if number && @groups[number] == bytes

        number ||= next_number
        changes[group_key(number)] = bytes
        names.each do |name|
          found = @stored[name]
          write(name, found, GROUPED, [number].pack("Q>"), changes) unless found&.group == number
        end
      end

      def write(name, found, kind, rest, changes)
        return changes[found.key] = found.head.tap { |head| head.setbyte(8, kind) } << rest if found

        number = @numbers[name]
        key = (Names.key_of(name) ? "r#{Names.key_of(name)}" : "x#{[number].pack("Q>")}").b
        named = Marshal.dump(name)
        changes[key] = [number, kind, named.bytesize].pack("Q>CN") << named << rest
      end

      # Groups all of whose roots are elsewhere now.
      def drop_old_groups(changes)
        @groups.each_key do |number|
          left = @stored.each_value.any? { |found| found && found.group == number && !changes.key?(found.key) }
          changes[group_key(number)] = nil unless left || changes[group_key(number)]
        end
      end
    end
    private_constant :Table
  end
end
