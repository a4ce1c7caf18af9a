# frozen_string_literal: true

# The program that calls: `ruby measured.rb CALLER BASE CERTIFICATES`. It works only when it is asked to, a line of JSON each time:
# {"batches": N} measures so many batches of fifteen calls, {"singles": N} so many single ones, {"connects": N} so many TCP connections.
require "json"
require_relative "callers"

module Bench
  class OutboundMeasured
    def initialize(caller, base)
      @caller = caller
      @base = base
    end

    def answer(question)
      return { "ms" => Array.new(question["singles"]) { timed { @caller.call(["/orders/1"]) } } } if question["singles"]
      return { "ms" => Array.new(question["connects"]) { timed { connect } } } if question["connects"]

      { "batches" => Array.new(question["batches"]) { batch } }
    end

    private

    def batch
      wrong = nil
      used = cpu
      ms = timed { wrong = OutboundCallers.batch(@caller) }
      { "ms" => ms, "cpu_ms" => (cpu - used) * 1000, "wrong" => wrong }
    end

    def connect
      uri = URI(@base)
      TCPSocket.new(uri.host, uri.port).close
    end

    def timed
      began = now
      yield
      (now - began) * 1000
    end

    def cpu = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end

  # Until standard input ends.
  def self.call_when_asked(name, base, certificates)
    out = $stdout.dup
    $stdout.reopen($stderr)
    measured = OutboundMeasured.new(OutboundCallers.make(name, base, certificates), base)
    out.puts JSON.generate("ready" => true)
    out.flush
    $stdin.each_line do |line|
      out.puts JSON.generate(measured.answer(JSON.parse(line)))
      out.flush
    end
  rescue LoadError, StandardError => e
    out.puts JSON.generate("failed" => "#{e.class}: #{e.message.lines.first&.strip}")
  end
end

Bench.call_when_asked(*ARGV) if $PROGRAM_NAME == __FILE__
