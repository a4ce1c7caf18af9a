# frozen_string_literal: true

# A process of measured.rb, seen from the benchmark.
require_relative "../lib/asked_process"

module Bench
  class XmlProcess < AskedProcess
    PROGRAM = File.join(__dir__, "measured.rb")

    def initialize(section, name, environment = {})
      super(PROGRAM, section, name, environment: environment)
    end

    # The bytes that it makes of a document.
    def result(document) = [ask("document" => document)["result"]].pack("H*")

    # [microseconds of processor time, objects allocated] for one.
    def measure(document, seconds) = ask("document" => document, "seconds" => seconds).values_at("us", "objects")
  end
end
