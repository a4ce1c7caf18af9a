# frozen_string_literal: true

# A process of xml_measured.rb, seen from the benchmark: it is asked, it answers, and waits for the next question.
require "json"
require "rbconfig"
require_relative "processes"

module Bench
  class XmlProcess
    PROGRAM = File.join(__dir__, "xml_measured.rb")

    # It could not be started, or said why it can't answer.
    class Failed < StandardError; end

    def initialize(section, name, environment = {})
      @io = IO.popen([environment, *Processes.ending_with_us("KILL"), RbConfig.ruby, PROGRAM, section, name], "r+")
      answer
    end

    # The bytes that it makes of a document.
    def result(document) = [ask("document" => document)["result"]].pack("H*")

    # [microseconds of processor time, objects allocated] for one.
    def measure(document, seconds) = ask("document" => document, "seconds" => seconds).values_at("us", "objects")

    def close
      @io.close
    end

    private

    def ask(question)
      @io.puts JSON.generate(question)
      @io.flush
      answer
    rescue Errno::EPIPE
      raise Failed, "it ended"
    end

    def answer
      line = @io.gets or raise Failed, "it ended"
      found = JSON.parse(line)
      raise Failed, found["failed"] if found["failed"]

      found
    end
  end
end
