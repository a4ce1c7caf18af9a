# frozen_string_literal: true

# What one request has read. Each thing once; each with the line of the application that read it first. Bounded: a request
# that reads more counts as one that can't be tracked. Belongs to one thread, and is not locked.
module Paceline
  module AutoCache
    class Recording
      # Entries of a record, as wire.rs takes them.
      MAX_ENTRIES = 4000
      # Bytes of a record.
      MAX_WIRE = 512 * 1024

      # Marks of values of the clock. A request with more is refused.
      MAX_MARKS = 10_000
      # A moment that is not later (ms since 1970).
      FAR = 1 << 53
      # A statement that has parameters, or whose text is not known.
      BINDS = /[$?:@]|\AEXECUTE\b/i
      private_constant :MAX_MARKS, :FAR, :BINDS

      # The statements of this request changed something.
      attr_reader :wrote
      # Why it can't be tracked; nil: it can.
      attr_reader :untracked_because

      def initialize(readers)
        @readers = readers
        @entries = {} # what, as an array of fields => the place
        @quiet = 0
        @wrote = false
        @marks = [] # values of the clock, with their marks
      end

      # The request is answered: values of its clock are times like any other.
      def end!
        Clock.forget(@marks.map(&:first)) if @marks.any?
      end

      # False: they are too many.
      def keep_mark(value, mark)
        @marks.size < MAX_MARKS && @marks << [value, mark]
      end

      # A value of the clock was written as this text, for a statement.
      def bind_mark(text, mark)
        return moment(mark.what, mark.place) unless keep_mark(text, mark)

        ((@bound ||= {})[text] ||= []) << mark
      end

      # Values of the clock as texts, with their marks; nil: there are none.
      def bound = (@bound unless quiet?)

      # This statement may have values of the clock that there are so far, and nobody sees which.
      def lose_marks(sql)
        return if @marks.empty?

        @marks.each { |_, mark| mark.refuse } if sql.match?(BINDS) || @bound&.each_key&.any? { |text| sql.include?(text) }
      end

      # By the clock, the page is good until this time (seconds since 1970).
      def good_until(time, place)
        @until = [time, place] if @until.nil? || time < @until.first
      end

      # Nothing is recorded within the block: what reads there has been recorded by a better name.
      def quiet
        @quiet += 1
        yield
      ensure
        @quiet -= 1
      end

      def quiet?
        @quiet.positive?
      end

      def statement(sql, values)
        return if @quiet.positive?

        add(["S", sql, values], @readers.place_of(sql))
      end

      # A statement of this request may change rows: its page is not kept.
      def writes!
        @wrote = true
      end

      # source: "cookie", "header", "session", "request". digest: of a value that the front can't see.
      def value(source, name, digest = "", place: nil)
        return if @quiet.positive?

        add(["V", source, name, digest], place || @readers.place_of("#{source} #{name}"))
      end

      def cache_key(key) = add(["K", key])
      def file(path, place) = add(["F", path], place)
      def outbound(url) = add(["O", url])
      def moment(what, place) = add(["M", what], place)

      # A random text was made. Its own copy: the application may change it in place.
      def random(form, text, place)
        @makes_texts = true
        add(["R", form, text.dup.freeze], place)
      end

      # Something is kept that later requests find: a random text may be part of it.
      def keeps(what)
        untracked("keeps #{what} after it has made a random text") if @makes_texts
      end

      # The session's cookie, and how it keeps it: "browser", "expires" or "server".
      def session_cookie(name, keeps)
        add(["C", name, keeps], "")
      end

      # What was read of the session: names and digests.
      def session_values
        @entries.keys.filter_map { |letter, source, name, digest| [name, digest] if letter == "V" && source == "session" }
      end

      # A CSRF token was minted, for the form with this action or (nil) for all; the secret is the session's.
      def token(path, method, secret)
        add(["P", secret], "")
        # Each of them is a place in the page.
        @entries[["T", path.to_s, method.to_s, @entries.size]] = ""
      end

      def untracked(why, place = nil)
        return if quiet?

        @untracked_because ||= why
        add(["U", why], place)
      end

      def each
        settle
        @entries.each { |fields, place| yield(*fields, place) }
      end

      def size
        @entries.size
      end

      # As wire.rs reads it.
      def to_wire
        settle
        out = String.new(encoding: ::Encoding::UTF_8)
        @entries.each do |(letter, *fields), place|
          case letter
          when "S"
            sql, values = fields
            Encoding.append(out, letter, place, sql, values.size, *values.map { |value| Encoding.value(value) })
          when "T" then Encoding.append(out, letter, place, *fields.first(2))
          else Encoding.append(out, letter, place, *fields)
          end
          return Encoding.append(+"", "U", "", "reads more than #{MAX_WIRE / 1024} KB of statements and names") if out.bytesize > MAX_WIRE
        end
        out
      end

      private

      # What became of the clock's values is known now.
      def settle
        @marks.each { |_, mark| @entries[["M", mark.what]] ||= mark.place if mark.lost? }
        @entries[["W", [(@until.first * 1000).floor, FAR].min]] = @until.last if @until
      end

      def add(entry, place = nil)
        return if @quiet.positive? || @entries.key?(entry)
        return overflow if @entries.size >= MAX_ENTRIES

        @entries[entry] = place || @readers.place
      end

      def overflow
        @untracked_because ||= "more than #{MAX_ENTRIES} different reads"
        @entries[["U", @untracked_because]] ||= ""
      end
    end
  end
end
