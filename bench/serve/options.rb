# frozen_string_literal: true

# The command line of `bin/bench serve`.
require "optparse"
require_relative "../lib/generators"
require_relative "../lib/invocation"
require_relative "../lib/scenarios"
require_relative "../lib/servers"

module Bench
  Options = Struct.new(:scenarios, :servers, :generators, :access_log, :connections, :seconds, :rounds, :warm_up, :full, :quick, :output, :results, :publish, keyword_init: true) do
    def self.parse(arguments)
      given = {}
      parser(given).parse!(arguments)
      return new(publish: true) if given[:publish]
      return new(results: { given[:results] => arguments }) if given[:results]

      quick = given[:quick]
      all = Servers::ALL.select(&:by_default?).map(&:name)
      new(scenarios: Scenarios.named(arguments), servers: Servers.named(given[:servers] || all), generators: generators(given[:generators]),
          access_log: given.fetch(:access_log, true), connections: given[:connections] || ([25] if quick),
          seconds: given[:seconds] || 2.0, rounds: given[:rounds] || (quick ? 1 : Servers::ROUNDS), warm_up: given[:warm_up], full: given[:full], quick: quick,
          output: given[:output] || File.join(Servers::HERE, quick ? "tmp/bench/results" : "bench/results"))
    rescue OptionParser::ParseError, ArgumentError => e
      warn "bin/bench serve: #{e.message}"
      exit 64
    end

    # Each is there.
    def self.generators(names)
      chosen = Generators.named(names || %w[ours])
      missing = Generators.missing(chosen) or return chosen
      raise ArgumentError, "--generator #{missing.name}: there is no `#{missing.program}` on PATH: bin/setup bench installs wrk and ab; oha is left to you (`cargo install oha --locked`)"
    end
    private_class_method :generators

    def self.parser(given)
      OptionParser.new do |it|
        it.banner = "Usage: bin/bench serve [options] [SCENARIO ...]\n       bin/bench serve --combine RESULT.json RESULT.json ...\n       bin/bench serve --readme RESULT.json RESULT.json ..."
        it.separator "\nScenarios (all, if none is named):"
        Scenarios.all.each { |scenario| it.separator format("    %-10s %s", scenario.name, scenario.title) }
        it.separator "\nServers:"
        Servers::ALL.each { |server| it.separator format("    %-10s %s", server.name, server.note) }
        it.separator "\nOptions:"
        it.on("--quick", "One round at 25 connections; the result goes to tmp/bench/results") { given[:quick] = true }
        it.on("--seconds N", Float, "Each load's time (2.0; scenarios that take milliseconds 1.5 times that, mixed 3 times)") { |n| given[:seconds] = n }
        it.on("--rounds N", Integer, "How often the servers take turns (#{Servers::ROUNDS}; with fewer the report says so)") { |n| given[:rounds] = n }
        it.on("--servers A,B", Array, "Only these") { |names| given[:servers] = names }
        it.on("--generator A,B", Array, "What makes the load, of ours, wrk, oha, ab (ours; several take turns; calls and switches are counted under the first)") { |names| given[:generators] = names }
        it.on("--access-log on|off", %w[on off], "Whether Paceline writes its access log, as it does by default, to a file (on)") { |word| given[:access_log] = word == "on" }
        it.on("--connections N,N", Array, "So many clients at once, kept and new (64 kept, 25 new, 1; differs by scenario)") { |list| given[:connections] = list.map { |n| Integer(n) } }
        it.on("--full", "Every number of connections with and without keep-alive, in every scenario") { given[:full] = true }
        it.on("--warm-up N", Integer, "Requests before anything is timed and memory is read (differs by scenario)") { |n| given[:warm_up] = n }
        it.on("--combine", "Measures nothing: ranges of the ratios over the results named, as a table") { given[:results] = "combine" }
        it.on("--readme", "Measures nothing: the table of README.md from the results named, each row by the generator that is worst for Paceline") { given[:results] = "readme" }
        it.on("--publish", "Measures nothing: makes the tables of README.md and docs/benchmarks.md anew from the results that they name") { given[:publish] = true }
        it.on("--output DIR", "Where the JSON and Markdown go (bench/results)") { |dir| given[:output] = dir }
        Invocation.add_help(it)
      end
    end
    private_class_method :parser
  end
end
