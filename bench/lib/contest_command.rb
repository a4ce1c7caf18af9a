# frozen_string_literal: true

# What the commands share that measure ways against each other, round by round in turn, and write one page: options that are numbers, the machine, and where
# the result goes. It measures nothing.
#
#   class BalanceBench < ContestCommand
#     def measure = BalanceContest.new(@options, processes) { |what, done| warn what if done }.run
#     def page(facts, found) = "..."
#   end
#   Bench::BalanceBench.main("balance", rounds: 5, seconds: 10)
require "fileutils"
require "json"
require "optparse"
require_relative "arithmetic"
require_relative "invocation"
require_relative "machine"
require_relative "processes"
require_relative "running_server"
require_relative "table"

module Bench
  class ContestCommand
    include Table

    # NUMBERS: whole numbers, each an option with its default. What the block returns of them are more of `@options`. Needs the program that is measured.
    # NAME: of the result; CALLED: of the command, if that is another.
    def self.main(name, called: name, **numbers)
      options = { **numbers, command: ["bin/bench #{called}", *ARGV].join(" "), output: File.join(Servers::HERE, "bench/results") }
      OptionParser.new do |parser|
        parser.banner = "bin/bench #{called} [options]"
        numbers.each_key { |key| parser.on("--#{key} N", Integer) { |value| options[key] = value } }
        parser.on("--output DIR") { |directory| options[:output] = directory }
      end.parse!
      options.update(yield(options)) if block_given?
      Invocation.need_paceline(called)
      Invocation.interrupt_by_signals
      Invocation.of_command { new(name, options).run }
    rescue RunningServer::Failed => e
      abort "bin/bench #{called}: #{e.message}"
    end

    # OPTIONS: `command` as it was called, `output`: the folder of the result, and the benchmark's own.
    def initialize(name, options)
      @name = name
      @options = options
    end

    def run
      facts = Machine.facts
      conclude(facts, measure)
    end

    private

    # The servers' descendants are counted, too.
    def processes = Processes.new.tap(&:adopt_orphans)

    # What is written of FOUND beside the command and the machine.
    def figures(found) = { "results" => found }

    def conclude(facts, found)
      text = page(facts, found)
      puts text
      base = File.join(@options[:output], "#{@name}-#{Time.now.utc.strftime("%Y%m%d-%H%M%S")}")
      FileUtils.mkdir_p(@options[:output])
      File.write("#{base}.md", text)
      File.write("#{base}.json", "#{JSON.pretty_generate("command" => @options[:command], "machine" => facts, **figures(found))}\n")
      puts "\nWritten to #{base}.md and .json"
    end
  end
end
