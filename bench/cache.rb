# frozen_string_literal: true

# `bin/bench cache`: the page cache beside nginx's proxy_cache and Varnish. Sections: hits, misses, keys, redmine, auto, watch; all, if none is named.
require "optparse"
require_relative "cache/report"
require_relative "cache/auto"
require_relative "cache/story"
require_relative "cache/watch"
require_relative "lib/invocation"
require_relative "lib/machine"
require_relative "lib/progress"

module Bench
  class Cache
    Options = Struct.new(:rounds, :seconds, :servers, :keys, :requests, :output, keyword_init: true)
    SECTIONS = { "hits" => CacheHits, "misses" => CacheBesideMisses, "keys" => CacheKeys, "redmine" => CacheStory,
                 "auto" => CacheAuto, "watch" => CacheWatch }.freeze

    def initialize(arguments)
      @command = ["bin/bench cache", *arguments].join(" ")
      @options = Options.new(rounds: 3, seconds: 4, keys: [10, 1_000, 100_000, 1_000_000], requests: 100_000, output: File.join(Servers::HERE, "bench/results"))
      rest = parser.parse(arguments)
      @names = rest.empty? ? SECTIONS.keys : rest
      raise ArgumentError, "there are #{SECTIONS.keys.join(", ")}" unless (@names - SECTIONS.keys).empty?
    rescue OptionParser::ParseError, ArgumentError => e
      warn "bin/bench cache: #{e.message}"
      exit 64
    end

    def run
      Invocation.need_paceline("cache")
      @processes = Processes.new
      @processes.adopt_orphans
      Invocation.interrupt_by_signals
      facts, versions, results = Machine.facts, Machine.versions, {}
      sections = @names.to_h { |name| [name, SECTIONS.fetch(name).new(@processes, @options) { |what, done| @progress.told(name, what, done) }] }
      @progress = Progress.new(sections.values.sum(&:loads))
      report = CacheReport.new(results, facts: facts, versions: versions, options: @options, command: @command, clock: @progress)
      base = nil
      sections.each do |name, section|
        results[name] = [section.run, section]
      rescue RunningServer::Failed => e
        @progress.say "#{name}: not measured: #{e.message}"
        results[name] = [nil, e.message]
      ensure
        # What was measured is there also when a later section is interrupted.
        base = report.write(@options.output) if results.any?
      end
      @progress.say ""
      puts report.markdown
      puts "\nWritten to #{base}.md and .json"
    end

    private

    def parser
      OptionParser.new do |it|
        it.banner = "Usage: bin/bench cache [options] [#{SECTIONS.keys.join(" ")}]"
        it.on("--rounds N", Integer, "(3)") { |n| @options.rounds = n }
        it.on("--seconds N", Float, "Of each load (4)") { |n| @options.seconds = n }
        it.on("--servers A,B", Array, "paceline, nginx, varnish (all)") { |names| @options.servers = names }
        it.on("--keys N,N", Array, "(10,1000,100000,1000000)") { |list| @options.keys = list.map { |n| Integer(n) } }
        it.on("--requests N", Integer, "Of each load on Redmine; the application alone gets a hundredth (100000)") { |n| @options.requests = n }
        it.on("--output DIR", "(bench/results)") { |directory| @options.output = directory }
      end
    end
  end
end

Bench::Invocation.of_command { Bench::Cache.new(ARGV).run }
