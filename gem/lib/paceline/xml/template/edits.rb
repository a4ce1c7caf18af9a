# frozen_string_literal: true

module Paceline
  module XML
    module Template
      # Pieces of a source that are replaced by others, with as many lines each.
      class Edits
        # From `start` up to `finish` (byte offsets); `text` has the line ends of what it replaces.
        Edit = Struct.new(:start, :finish, :text)

        attr_reader :source, :list

        def initialize(source, list)
          @source = source
          @list = list.sort_by(&:start)
        end

        # The source with all of them done.
        def apply
          return @source if @list.empty?

          result = +"".b
          from = 0
          @list.each do |edit|
            result << @source.byteslice(from...edit.start).b << edit.text.b
            from = edit.finish
          end
          result << @source.byteslice(from..).b
          result.force_encoding(@source.encoding)
        end

        # The columns `range` (in bytes) of a line (counted from 1) of the result, as columns of the same line of the source. What was
        # replaced counts as a whole.
        def original_columns(line, range)
          first = place(line, range.begin).first
          last = range.end > range.begin ? place(line, range.end - 1).last : first
          [first, last].minmax.then { |from, to| from...to }
        end

        private

        # The Range of columns in the source where the byte at `column` of the result comes from.
        def place(line, column)
          shift = 0
          each_piece(line) do |from, to, length|
            start = from + shift
            return column - shift..column - shift + 1 if column < start
            return from..to if column < start + length

            shift += length - (to - from)
          end
          column - shift..column - shift + 1
        end

        # What is replaced in this line: first and last column in the source, and the length of what stands there instead.
        def each_piece(line)
          start = line_starts[line - 1] or return
          finish = line_starts[line] || @source.bytesize
          @list.each do |edit|
            next if edit.finish < start || edit.start >= finish

            ends = line_ends(edit)
            index = ends.count { |position| position < start }
            text = edit.text.b.split("\n", -1)[index] || ""
            from, to = [edit.start, start].max, [edit.finish, finish].min
            yield from - start, to - start, text.bytesize
          end
        end

        # Where the line ends are that the edit replaces.
        def line_ends(edit)
          line_starts.filter_map { |position| position - 1 if position - 1 >= edit.start && position - 1 < edit.finish }
        end

        def line_starts
          @line_starts ||= @source.b.each_line.with_object([0]) { |line, starts| starts << (starts.last + line.bytesize) }
        end
      end
    end
  end
end
