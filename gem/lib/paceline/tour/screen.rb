# frozen_string_literal: true

module Paceline
  module Tour
    # The visitor has seen enough.
    class Stopped < StandardError; end

    # What the tour shows, and the key that it waits for. Starts nothing.
    class Screen
      WIDTH = 96
      private_constant :WIDTH

      # KEYS is where lines come from; nil if nobody is asked.
      def initialize(out, keys)
        @out = out
        @keys = keys
        @colour = out.respond_to?(:tty?) && out.tty? && !ENV.key?("NO_COLOR")
      end

      def title(line, below)
        @out.puts("", bold(line), below)
        @out.puts("Enter: the next step. q and Enter, or Ctrl-C: end.") if @keys
      end

      def heading(number, count, title)
        @out.puts("", bold("#{number} of #{count}   #{title}"), "")
        @out.flush
      end

      # A command as somebody would type it.
      def command(line)
        @out.puts("  $ #{line}")
        @out.flush
      end

      # What a command printed, without what is longer than a screen. No control characters: pages and logs are not trusted.
      def output(text, lines: 24)
        shown = text.to_s.scrub("?").lines.map { |line| line.chomp.gsub(/[[:cntrl:]]/, " ") }
        shown.shift while shown.first&.strip == ""
        shown.pop while shown.last&.strip == ""
        rest = shown.size - lines
        @out.puts(shown.first(lines).map { |line| "    #{line}".rstrip })
        @out.puts("    ... #{rest} more lines") if rest.positive?
        @out.puts("")
      end

      # The figure that a step is about, and what it means.
      def figure(figure, meaning)
        @out.puts("  #{bold(figure)}", wrapped(meaning).map { |line| "  #{line}" })
      end

      def say(text)
        @out.puts(wrapped(text).map { |line| "  #{line}".rstrip })
        @out.flush
      end

      # Waits for Enter; raises Stopped at `q` or the end of the input.
      def pause
        return unless @keys
        @out.print("\n  [Enter] ")
        @out.flush
        line = @keys.gets
        raise Stopped if line.nil? || line.strip.downcase.start_with?("q")
      rescue Interrupt
        raise Stopped
      end

      private

      def bold(text)
        @colour ? "\e[1m#{text}\e[0m" : text
      end

      def wrapped(text)
        text.split.each_with_object([+""]) do |word, lines|
          lines << +"" if lines.last.size + word.size >= WIDTH
          lines.last << (lines.last.empty? ? "" : " ") << word
        end
      end
    end
  end
end
