# frozen_string_literal: true

require_relative "records"
require_relative "cache_store/cache_file"
require_relative "cache_store/changes"
require_relative "cache_store/entry"
require_relative "cache_store/eviction"

module Paceline
  # Values by key in one file of bounded size that many processes use at once, each until it expires or is in the way. What
  # ActiveSupport::Cache::PacelineFileStore is made of; knows nothing of ActiveSupport. Keys and values are binary Strings, times seconds as
  # Floats (by Time.now; infinity: never). Guide: docs/cache-store.md.
  #
  # All of it raises Records::Error or SystemCallError where the file can't be used. Then nothing was changed.
  class CacheStore
    # The file is another user's, or everybody's to write.
    class Untrusted < Records::Error; end

    LEAST_SIZE = 1024 * 1024
    # A value of more than this part of the size is not kept.
    LARGEST_PART = 16
    # Entries of which it is known in this process, and nowhere else yet, that they were used; and of those, how many are told with a write.
    MOST_USED = 512
    USED_PER_WRITE = 128
    # Entries that are written, or looked at, together at most.
    SLICE = 100
    # Times that room is made anew for one commit.
    MOST_TRIES = 4
    private_constant :LARGEST_PART, :MOST_USED, :USED_PER_WRITE, :SLICE, :MOST_TRIES

    attr_reader :path, :size

    # `path`: the file, made by the first use. `size`: bytes that it may have, at least 1 MB; it never has more. `log`: called with a line
    # when a file is begun anew. Raises Records::Error without the native part of the gem, ArgumentError.
    def initialize(path, size:, log: ->(_line) {})
      Records.needed("a cache in a file (#{path})", instead: "use another store, as Rails' :file_store or :memory_store")
      raise ArgumentError, "size: must be at least #{LEAST_SIZE} bytes, not #{size.inspect}" unless size.is_a?(Integer) && size >= LEAST_SIZE

      @path = path
      @size = size
      @log = log
      @file = CacheFile.new(path, size, log)
      @slice = Eviction.most(size, SLICE)
      @used = {}
    end

    # The entry (`value`, `expires`) of a key, also for some time after it has expired; or nil.
    def read(key)
      found = using { |records, stat| records.snapshot(stat) { |now| Entry.find(now, key) } }
      note_use(found) if found
      found
    end

    # Reads many keys at one moment: a Hash of entries, without keys that are not there.
    def read_many(keys)
      found = using do |records, stat|
        records.snapshot(stat) { |now| keys.to_h { |key| [key, Entry.find(now, key)] } }
      end
      found.compact.each_value { |entry| note_use(entry) }
    end

    # Returns false if the value is too large to be kept; what was there is gone then, too.
    def write(key, value, expires = Entry::NEVER)
      update(key) { [value, expires] }
    end

    # `entries`: a Hash of keys to [value, expires]. Not all at one moment.
    def write_many(entries)
      small, large = entries.partition { |key, (value, _)| fits?(key, value) }
      large.each { |key, _| delete(key) }
      until small.empty?
        room = @size / LARGEST_PART
        slice = small.take_while.with_index { |(key, (value, _)), n| n < @slice && (n.zero? || (room -= Entry.size_of(key, value)).positive?) }
        small.shift(slice.size)
        change { |changes| slice.each { |key, (value, expires)| changes.put(key, value, expires) } }
      end
    end

    # Yields the entry of a key, or nil, while nobody else changes it; what the block returns (value, expires) takes its place, nil changes
    # nothing. Returns whether anything was written.
    def update(key)
      large = false
      written = change do |changes|
        old = Entry.find(changes.now, key)
        value, expires = yield(old)
        next false unless value
        next changes.put(key, value, expires) && true if fits?(key, value)

        large = true
        changes.remove(old) if old
        false
      end
      written && !large
    rescue Records::Full
      # What was to be replaced is not to be found any more, at least.
      begin
        delete(key)
      rescue Records::Full
        nil
      end
      raise
    end

    # Returns whether there was an entry that had not expired.
    def delete(key)
      delete_many([key]) == 1
    end

    # Returns how many there were.
    def delete_many(keys)
      # Nobody waits for the sake of what is not there.
      there = using { |records, stat| records.snapshot(stat) { |now| keys.uniq.select { |key| Entry.find(now, key) } } }
      time = Time.now.to_f
      there.each_slice(@slice).sum do |slice|
        change do |changes|
          found = slice.filter_map { |key| Entry.find(changes.now, key) }
          found.each { |entry| changes.remove(entry) }
          found.count { |entry| !entry.expired?(time) }
        end
      end
    end

    # Deletes the entries whose keys the block says yes to. Returns how many.
    def delete_if
      count = 0
      each_key_slice { |keys| count += delete_many(keys.select { |key| yield key }) }
      count
    end

    # Deletes what has expired. Returns how many.
    def cleanup
      repeatedly { |changes| Eviction.new(changes, @size).expire_all }
    end

    # Deletes what has expired, then what was used least recently, until the entries fill no more than `bytes`; not for much longer than `time` seconds.
    def prune(bytes, time = nil)
      deadline = time && (Process.clock_gettime(Process::CLOCK_MONOTONIC) + time)
      repeatedly do |changes|
        over = changes.now.used - bytes
        next 0 if over <= 0 || (deadline && Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline)

        Eviction.new(changes, @size).free(over)
      end
    end

    # Deletes everything: the file is begun anew.
    def clear
      using { |records, stat| records.exclusively(stat) { @file.remove } }
    end

    # Bytes that the entries fill.
    def used
      using { |records, stat| records.snapshot(stat, &:used) }
    end

    private

    def fits?(key, value)
      Entry.size_of(key, value) <= @size / LARGEST_PART
    end

    # Reading writes nothing. Marks are written with the next write, or many at once by who only reads.
    def note_use(entry)
      @used[entry.number] = true
      return if @used.size < MOST_USED

      numbers = @used.keys
      @used.clear
      change(marks: false) { |changes| changes.used(numbers) if Eviction.new(changes, @size).near? }
    rescue Records::Full
      nil
    end

    # Yields Changes that nobody else interferes with, and commits them, with what must go for them. Returns what the block returned.
    def change(marks: true)
      tries = 0
      growth = 0
      begin
        returned = nil
        commit do |changes|
          returned = yield changes
          next if changes.records.empty?

          growth = changes.growth
          eviction = Eviction.new(changes, @size)
          changes.used(taken_marks) if marks && eviction.near?
          eviction.make_room if growth.positive?
        end
        returned
      rescue Records::Full
        raise if (tries += 1) > MOST_TRIES

        relieve(growth, tries)
        retry
      end
    end

    # Removes something, for a commit that found no room. To remove takes pages, too, and those that are free may be what others still read, which
    # nobody does for long. Where the disk is full there may be none: then all goes, also for the sake of others who need the disk.
    def relieve(growth, tries)
      commit { |changes| Eviction.new(changes, @size).free([growth, changes.now.used / 64].max * tries) }
    rescue Records::Full
      return sleep(0.001) unless tries == MOST_TRIES && File.size(@path).between?(LEAST_SIZE, @size - Eviction.reserve(@size))

      clear
      @log.call("#{@path} is begun anew, since the disk is full")
    end

    def commit
      using do |records, stat|
        records.exclusively(stat) do
          records.commit(records.snapshot { |now| Changes.new(now).tap { |changes| yield changes }.records })
        end
      end
    end

    # Until a commit removes nothing. Returns how many went.
    def repeatedly
      total = 0
      loop do
        removed = 0
        commit { |changes| removed = yield(changes) }
        total += removed
        return total if removed.zero?
      end
    end

    def taken_marks
      numbers = []
      while numbers.size < USED_PER_WRITE && (number, = @used.shift)
        numbers << number
      end
      numbers
    end

    # Those that are there now.
    def each_key_slice
      from = "q"
      last = Process.clock_gettime(Process::CLOCK_REALTIME, :microsecond)
      loop do
        slice = using { |records, stat| records.snapshot(stat) { |now| now.scan(from, SLICE) } }.select { |name, _| name.start_with?("q") }
        return if slice.empty? || slice[0][0].unpack1("xQ>") > last

        from = "#{slice.last[0]}\0"
        yield(slice.map { |_, queued| queued.byteslice(Entry::QUEUED_SIZE + 16, queued.bytesize) })
      end
    end

    # Yields the Records, and what is known of the file. A damaged file is set aside, and it is tried again with a new one.
    def using
      tries = 0
      begin
        yield(*@file.records)
      rescue Records::Damaged, Records::Foreign => e
        raise unless (tries += 1) == 1 && @file.set_aside(e)

        retry
      rescue Errno::ENOENT, IOError, Records::Error => e
        # Another thread or process has just begun it anew, and somebody still reads the old one.
        raise if (e.is_a?(Records::Error) && !e.instance_of?(Records::Error)) || (tries += 1) > 5

        sleep(0.001)
        retry
      end
    end
  end
end
