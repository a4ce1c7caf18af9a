# frozen_string_literal: true

module Paceline
  module Compare
    # Says what is being done and how long the run takes: on a terminal in one line that is written again, otherwise in a line for each stage.
    # Prints nothing if OUT is nil.
    class Progress
      def initialize(out, steps)
        @out = out
        @steps = steps
        @done = 0
        @began = now
        @terminal = out.respond_to?(:tty?) && out.tty?
      end

      # A step of STAGE begins.
      def step(stage, what)
        if @terminal
          @out.print("\r\e[K[#{@done + 1}/#{@steps}#{left}] #{stage}: #{what}"[0, 110])
        elsif stage != @stage
          @out&.puts("[#{@done + 1}/#{@steps}#{left}] #{stage}")
        end
        @stage = stage
        @out&.flush
        @done += 1
      end

      # The line makes room for what comes next.
      def clear
        @out.print("\r\e[K") if @terminal
      end

      private

      def left
        @done.positive? ? format(", about %d:%02d left", *((now - @began) / @done * (@steps - @done)).round.divmod(60)) : ""
      end

      def now
        Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end
    end
  end
end
