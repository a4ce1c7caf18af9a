# frozen_string_literal: true

# A thread of the worker that sends what has waited long enough. It never waits for the front, and never runs the app's code.
require_relative "gatherer"

module Paceline
  module Server
    class Flusher
      def initialize
        @queue = Thread::Queue.new
        @start = Mutex.new
      end

      # Nil until there was something to send.
      attr_reader :thread

      def watch(gatherer)
        @queue << gatherer
        @start.synchronize { start unless @thread&.alive? }
      end

      private

      def start
        @thread = Thread.new { loop { attend(@queue.pop) } }
        @thread.name = "paceline flusher"
      end

      # Sleeps first: most bodies have ended by then, also those that came meanwhile, which need not wake this thread.
      def attend(gatherer)
        return if gatherer.ended?
        sleep(Gatherer::DELAY)
        while (wait = gatherer.flush_late)
          break @queue << gatherer unless @queue.empty?
          sleep(wait)
        end
      end
    end
  end
end
