# frozen_string_literal: true

# A program that answers questions, a line of JSON each, seen from the benchmark: it says first that it is ready, and works only when it is asked to.
require "json"
require "rbconfig"
require_relative "processes"

module Bench
  class AskedProcess
    # It could not be started, or said why it can't answer.
    class Failed < StandardError; end

    # Ruby runs WORDS. PREFIX: a command that runs it, as of another network.
    def initialize(*words, environment: {}, prefix: [])
      @io = IO.popen([environment, *prefix, *Processes.ending_with_us("KILL"), RbConfig.ruby, *words], "r+")
      answer
    rescue Failed
      close
      raise
    end

    def pid = @io.pid

    def ask(question)
      tell(question)
      answer
    end

    # Its answer is to be waited for.
    def tell(question)
      @io.puts JSON.generate(question)
      @io.flush
    rescue Errno::EPIPE
      raise Failed, "it ended"
    end

    def answer
      line = @io.gets or raise Failed, "it ended"
      found = JSON.parse(line)
      raise Failed, found["failed"] if found["failed"]

      found
    end

    def close
      @io.close
    end
  end
end
