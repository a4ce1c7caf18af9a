# frozen_string_literal: true

# Visitors with a crawler beside them and without, on Paceline with `crawlers = "last"`, without it, and on Puma, round by round in turn. Prints nothing.
require "fileutils"
require "tmpdir"
require_relative "../lib/arithmetic"
require_relative "../lib/caches"
require_relative "../lib/processes"
require_relative "../lib/round_contest"
require_relative "../lib/running_server"
require_relative "people"

module Bench
  # Options: visitors, rate, crawler, cost, wait, seconds, rounds.
  class CrawlersContest < RoundContest
    APP = File.expand_path("app.ru", __dir__)
    VISITOR = ["User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0", "Cookie: _session=1", "Sec-Fetch-Mode: navigate"].freeze
    CRAWLER = ["User-Agent: Mozilla/5.0 (compatible; ExampleBot/1.0; +http://bot.example/)"].freeze
    PAGES = 10_000
    # Seconds in which the server gets to know its pages.
    WARM = 3

    WAYS = { "paceline, crawlers last" => 'crawlers = "last"', "paceline, crawlers equal" => "", "puma" => nil }.freeze

    # {way => what was found in each round}
    def run = in_turn(ways) { |name| measure(name) }

    private

    def ways = WAYS.keys.select { |name| name != "puma" || Servers.named(["puma"])[0].missing.nil? }

    def server(name)
      name == "puma" ? Servers.named(["puma"])[0] : Caches.paceline_with_app(name.tr(", ", "-"), WAYS[name], "")
    end

    # Alone, and then with the crawler, on the same server.
    def measure(name)
      Dir.mktmpdir("paceline-crawlers-") do |work|
        folder = File.join(work, "app")
        FileUtils.mkdir_p(folder)
        FileUtils.cp(APP, File.join(folder, "config.ru"))
        environment = { "COST" => @options[:cost].to_s, "WAIT" => @options[:wait].to_s, "XDG_STATE_HOME" => File.join(work, "state") }
        running = RunningServer.new(server(name), Struct.new(:directory, :environment).new(folder, environment), @processes, work, "/pages/0").start
        visitors(running.port).start(Time.now.to_f + WARM).call
        alone = percentiles(visitors(running.port).start(Time.now.to_f + @options[:seconds]).call)
        { alone: alone, **beside(running.port) }
      ensure
        running&.stop
      end
    end

    def beside(port)
      to = Time.now.to_f + @options[:seconds]
      both = [visitors(port).start(to), crawler(port).start(to)].map(&:call)
      answered = both[1].count { |answer| answer.status == 200 }
      { beside: percentiles(both[0]), lost: both[0].count { |answer| answer.status != 200 }, crawled: answered.fdiv(@options[:seconds]),
        refused: both[1].count { |answer| answer.status == 503 }.fdiv(@options[:seconds]) }
    end

    def visitors(port) = CrawlersPeople.new(port, fields: VISITOR, connections: @options[:visitors], rate: @options[:rate], pages: PAGES)

    # It has as many connections as requests in a second.
    def crawler(port) = CrawlersPeople.new(port, fields: CRAWLER, connections: @options[:crawler], rate: @options[:crawler], pages: PAGES)

    def percentiles(answers)
      times = answers.map { |answer| answer.took * 1000 }.sort
      return [0, 0] if times.empty?

      [times[times.size / 2], times[(times.size * 0.99).floor.clamp(0, times.size - 1)]]
    end
  end
end
