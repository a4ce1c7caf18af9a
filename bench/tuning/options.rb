# frozen_string_literal: true

# The command line of `bin/bench tuning`.
require "optparse"
require_relative "../lib/invocation"
require_relative "ways"

module Bench
  # The first of WAYS is what the others are compared with. SHAPE: of each load.
  TuningOptions = Struct.new(:ways, :pages, :threads, :shape, :rounds, :seconds, :requests, :output, :combine, keyword_init: true) do
    def self.parse(arguments)
      given = { pages: TuningPages::ALL.keys, threads: [1, Servers::THREADS], rounds: Servers::ROUNDS, seconds: 1.0, requests: 3000, connections: 16,
                output: File.join(Servers::HERE, "bench/results") }
      parser(given).parse!(arguments)
      return new(combine: arguments) if given.delete(:combine)

      unknown = given[:pages] - TuningPages::ALL.keys
      raise ArgumentError, "no page #{unknown.join(", ")}; there are #{TuningPages::ALL.keys.join(", ")}" if unknown.any?

      connections, rate = given.delete(:connections), given.delete(:rate)
      new(ways: arguments.empty? ? TuningPages::WAYS : arguments, shape: rate ? Shape.new(nil, true, rate) : Shape.new(connections, true), **given)
    rescue OptionParser::ParseError, ArgumentError => e
      warn "bin/bench tuning: #{e.message}"
      exit 64
    end

    def self.parser(given)
      OptionParser.new do |it|
        it.banner = "Usage: bin/bench tuning [options] -- [WAY ...]\n       bin/bench tuning --combine RESULT.json RESULT.json ..."
        it.separator "\nA WAY is one argument: flags of Paceline, variables before them; or puma. The first is what the others are compared with. Without any:"
        TuningPages::WAYS.each { |way| it.separator "    #{way.inspect}" }
        it.separator "\nPages:"
        TuningPages::ALL.each { |name, (title)| it.separator format("    %-8s %s", name, title) }
        it.separator "\nOptions:"
        it.on("--pages A,B", Array, "Only these") { |names| given[:pages] = names }
        it.on("--threads N,N", Array, "Of a worker; each way is served with each (1,#{Servers::THREADS})") { |list| given[:threads] = list.map { |n| Integer(n) } }
        it.on("--rounds N", Integer, "How often the ways take turns (#{Servers::ROUNDS}); 0: only memory is read") { |n| given[:rounds] = n }
        it.on("--seconds N", Float, "Each load's time (1.0)") { |n| given[:seconds] = n }
        it.on("--requests N", Integer, "Before memory is read (3000); 0: it is not") { |n| given[:requests] = n }
        it.on("--connections N", Integer, "So many clients at once, kept (16)") { |n| given[:connections] = n }
        it.on("--rate N", Integer, "Instead: so many requests a second at fixed times") { |n| given[:rate] = n }
        it.on("--combine", "Measures nothing: the results named, of one Ruby or several, as tables with a column for each Ruby") { given[:combine] = true }
        it.on("--output DIR", "Where the JSON and Markdown go (bench/results)") { |dir| given[:output] = dir }
        Invocation.add_help(it)
      end
    end
    private_class_method :parser

    # What Visit asks for. Each scenario says itself what it needs.
    def connections = nil
    def full = false
    # Our own.
    def generators = nil
    def warm_up = nil
  end
end
