# frozen_string_literal: true

require "fileutils"
require_relative "../records"
require_relative "../trust"

module Paceline
  module Session
    # Sessions in Records: one record for each, and one without a value that lists it by when it expires. Both change in one commit, in which also
    # some go that have expired. A process that has read a session and is about to write it keeps no other from writing, for it may have to wait
    # for Ruby's lock meanwhile: if another was quicker, which the commit notices, it begins again.
    class FileBackend
      # Expired sessions that go with each write.
      SWEPT = 4
      # What is in the file besides, so that no other store is taken for this one.
      HEAD = ["f", "paceline sessions 1"].freeze
      # Sessions by the SHA-256 of their ids; the list by 8 bytes of the time and that.
      SESSION = "s"
      EXPIRY = "x"
      private_constant :HEAD, :SESSION, :EXPIRY

      attr_reader :max_size, :path

      # Raises Unavailable without the native part of the gem.
      def initialize(path, max_size:, sync: false, trust: false)
        @path = File.expand_path(path)
        @max_size = max_size
        @sync = sync
        @trust = trust
        Records.needed("a session store in a file (#{path})", instead: "keep the sessions in Redis (store: \"redis://…\")")
      rescue Records::Error => e
        raise Unavailable, e.message
      end

      def read(key)
        packed = using { |records, stat| records&.snapshot(stat) { |view| view.get("#{SESSION}#{key}") } }
        packed && Packed.unpack(packed)
      end

      def create(key, record, now)
        write(key, now) do |_, changes|
          changes["#{SESSION}#{key}"] = Packed.pack(record)
          changes[expiry(record.expires, key)] = ""
        end
      end

      # Returns whether there still is such a session.
      def update(key, loaded, changed, expires, now)
        write(key, now) do |packed, changes|
          next false unless packed

          # Mostly it is still what the request has read.
          record = packed == loaded.packed ? loaded.dup : Packed.unpack(packed)
          record.fields = record.changed(changed)
          TooLarge.check(record.fields, @max_size) unless changed.empty?
          if expires && expires != record.expires
            changes[expiry(record.expires, key)] = nil
            changes[expiry(expires, key)] = ""
            record.expires = expires
          end
          changes["#{SESSION}#{key}"] = Packed.pack(record)
          true
        end
      end

      # Removes it, and returns what it was.
      def take(key)
        write(key, nil) do |packed, changes|
          next unless packed

          Packed.unpack(packed).tap do |taken|
            changes["#{SESSION}#{key}"] = nil
            changes[expiry(taken.expires, key)] = nil
          end
        end
      end

      # Removes all that have expired, in commits of some. Returns how many.
      def sweep(now)
        total = 0
        loop do
          changes, listed = {}, {}
          committed = using(make: true) do |records, stat|
            records.snapshot(stat) { |view| expired(view, changes, listed, now, 500) }
            commit(records, changes, listed)
          end
          return total if listed.empty?

          total += listed.size if committed
        end
      end

      # Removes all. Returns how many.
      def clear
        sweep(1 << 62)
      end

      # How many there are, and how many of them have expired; bytes that they take.
      def statistics(now)
        using do |records|
          next { sessions: 0, expired: 0, bytes: 0 } unless records

          count = expired = 0
          records.snapshot do |view|
            each_expiry(view) do |at, _|
              count += 1
              expired += 1 if at <= now
            end
          end
          { sessions: count, expired: expired, bytes: records.size }
        end
      end

      private

      def expiry(at, key)
        [at].pack("Q>").prepend(EXPIRY.b) << key
      end

      # Yields what is kept of a session, or nil, and the Hash of changes that are committed after it, unless they are none; again if that has changed meanwhile.
      # Returns what the block returned.
      def write(key, now)
        session = "#{SESSION}#{key}"
        loop do
          using(make: true) do |records, stat|
            changes, expected = {}, {}
            returned = records.snapshot(stat) do |view|
              expected[session] = view.get(session)
              returned = yield expected[session], changes
              expired(view, changes, expected, now - Store::GRACE, SWEPT) if now && !changes.empty?
              returned
            end
            return returned if commit(records, changes, expected)
          end
          # The quicker one may have taken away what has expired, too.
          now = nil
        end
      end

      # Nothing is written into a file that holds no sessions: another may have taken the place of the one that was read. Whether it is one is looked
      # at again if this returns false.
      def commit(records, changes, expected)
        committed = records.commit(changes, expected: expected.merge(HEAD[0] => HEAD[1]), sync: @sync)
        @known = nil unless committed
        committed
      end

      # Adds the removal of up to so many that expired before `now`, and that they are still listed so.
      def expired(view, changes, expected, now, most)
        due = ->(listed) { listed.start_with?(EXPIRY) && listed.unpack1("Q>", offset: 1) < now }
        # Mostly there is none.
        return unless (first = view.scan(EXPIRY, 1)[0]) && due[first[0]]

        view.scan(EXPIRY, most).each do |listed, value|
          break unless due[listed]

          # What is being written is not expired any more.
          key = "#{SESSION}#{listed.byteslice(9, 32)}"
          next if changes[key]

          expected[listed] = value
          changes[listed] = changes[key] = nil
        end
      end

      def each_expiry(view)
        from = EXPIRY
        loop do
          found = view.scan(from, 1000)
          found.each { |listed, _| yield listed.unpack1("Q>", offset: 1), listed }
          return if found.size < 1000

          from = "#{found.last.first}\0"
        end
      end

      # Yields the Records and the file's File::Stat, or nil if there is no file and none is to be made.
      def using(make: false)
        stat = stat_of_file
        return yield(nil) unless stat || make

        stat ||= make_file
        known = @known
        recognise(stat) unless known && known[0] == stat.ino && known[1] == stat.dev && known[2] == stat.uid && known[3] == stat.mode
        yield @records, stat
      rescue Records::Error, SystemCallError => e
        raise Unavailable, e.message.include?(@path) ? "sessions: #{e.message}" : "sessions in #{@path}: #{e.message}"
      end

      def stat_of_file
        File.stat(@path)
      rescue Errno::ENOENT
        nil
      end

      # Makes sure that the file may be loaded, and holds sessions.
      def recognise(stat)
        why = @trust ? nil : Paceline::Trust.doubt(stat)
        raise Unavailable, "sessions in #{@path} are not loaded, because #{why}, and the data could run code. Change its owner, or pass `trust: true`" if why

        @records = Records.at(@path)
        head = @records.snapshot { |view| [view.get(HEAD[0]), view.count] }
        unless head[0] == HEAD[1]
          raise Unavailable, "#{@path} is not a session file: name another file" unless head[1].zero?

          @records.commit([HEAD].to_h)
        end
        stat = File.stat(@path)
        @known = [stat.ino, stat.dev, stat.uid, stat.mode].freeze
      end

      # For the owner alone.
      def make_file
        folder = File.dirname(@path)
        begin
          Dir.mkdir(folder) unless File.directory?(folder)
        rescue Errno::ENOENT
          raise Unavailable, "sessions in #{@path}: the folder #{File.dirname(folder)} does not exist: create it"
        end
        # Somebody else may have made it meanwhile.
        File.open(@path, File::WRONLY | File::CREAT, 0o600, &:stat)
      end
    end
    private_constant :FileBackend
  end
end
