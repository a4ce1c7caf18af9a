# frozen_string_literal: true

# The command line of `bin/bench serve`.
require "optparse"
require_relative "../lib/scenarios"
require_relative "../lib/servers"

module Bench
  Options = Struct.new(:scenarios, :servers, :connections, :seconds, :rounds, :warm_up, :full, :quick, :output, :combine, keyword_init: true) do

    def self.parse(arguments)
      given = {}
      parser(given).parse!(arguments)
      return new(combine: arguments) if given[:combine]

      quick = given[:quick]
      all = Servers::ALL.select(&:by_default?).map(&:name)
      new(scenarios: Scenarios.named(arguments), servers: Servers.named(given[:servers] || all), connections: given[:connections] || ([25] if quick),
          seconds: given[:seconds] || 2.0, rounds: given[:rounds] || (quick ? 1 : Servers::ROUNDS), warm_up: given[:warm_up], full: given[:full], quick: quick,
          output: given[:output] || File.join(Servers::HERE, quick ? "tmp/bench/results" : "bench/results"))
    rescue OptionParser::ParseError, ArgumentError => e
      warn "bin/bench serve: #{e.message}"
      exit 64
    end

    def self.parser(given)
      OptionParser.new do |it|
        it.banner = "Usage: bin/bench serve [options] [SCENARIO ...]\n       bin/bench serve --combine RESULT.json RESULT.json ..."
        it.separator "\nScenarios (all, if none is named):"
        Scenarios.all.each { |scenario| it.separator format("    %-10s %s", scenario.name, scenario.title) }
        it.separator "\nServers:"
        Servers::ALL.each { |server| it.separator format("    %-10s %s", server.name, server.note) }
        it.separator "\nOptions:"
        it.on("--quick", "One round at 25 connections; the result goes to tmp/bench/results") { given[:quick] = true }
        it.on("--seconds N", Float, "Each load's time (2.0; scenarios that take milliseconds 1.5 times that, mixed 3 times)") { |n| given[:seconds] = n }
        it.on("--rounds N", Integer, "How often the servers take turns (#{Servers::ROUNDS}; with fewer the report says so)") { |n| given[:rounds] = n }
        it.on("--servers A,B", Array, "Only these") { |names| given[:servers] = names }
        it.on("--connections N,N", Array, "So many clients at once, kept and new (64 kept, 25 new, 1; differs by scenario)") { |list| given[:connections] = list.map { |n| Integer(n) } }
        it.on("--full", "Every number of connections with and without keep-alive, in every scenario") { given[:full] = true }
        it.on("--warm-up N", Integer, "Requests before anything is timed and memory is read (differs by scenario)") { |n| given[:warm_up] = n }
        it.on("--combine", "Measures nothing: ranges of the ratios over the results named, as a table") { given[:combine] = true }
        it.on("--output DIR", "Where the JSON and Markdown go (bench/results)") { |dir| given[:output] = dir }
        it.on_tail("-h", "--help", "This text") do
          puts it
          exit
        end
      end
    end
    private_class_method :parser
  end
end
