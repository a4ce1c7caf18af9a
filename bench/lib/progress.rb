# frozen_string_literal: true

# The line that says what is being done and how long it will take: rewritten in place on a terminal, a line for each
# server's visit otherwise.
module Bench
  class Progress
    def initialize(steps, out = $stderr)
      @steps = steps
      @done = 0
      @out = out
      @began = now
    end

    # DONE: a load is finished.
    def told(who, what, done)
      @done += 1 if done
      if @out.tty?
        line = "#{clock} #{who}: #{what}"
        @out.print "\r\e[K#{line[0, (ENV["COLUMNS"] || 120).to_i - 1]}"
      elsif done || what == "starts"
        @out.puts "#{clock} #{who}: #{what}"
      end
    end

    # Loads that won't be measured.
    def skip(count)
      @done += count
    end

    def say(text)
      @out.print "\r\e[K" if @out.tty?
      @out.puts text
    end

    def seconds
      now - @began
    end

    private

    def clock
      left = @done.positive? ? format("about %d:%02d left", *(seconds / @done * (@steps - @done)).round.divmod(60)) : "..."
      "[#{@done}/#{@steps}, #{left}]"
    end

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
