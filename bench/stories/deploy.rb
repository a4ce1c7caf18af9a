# frozen_string_literal: true

# The story of a deploy under load: what visitors lose and wait for, when the new version works, and when it does not load.
require_relative "../restart/visit"
require_relative "../restart/ways"

module Bench
  module Stories
    class DeployStory < Story
      GOOD = %w[puma-hot puma-phased passenger unicorn symlink capistrano].freeze
      BAD = %w[puma-hot-fails puma-phased-fails passenger-fails unicorn-fails fails].freeze
      # What RestartVisit asks of its options.
      Options = Struct.new(:restarts, :failing, :clients, :think_ms, :boot_ms, :work_ms, keyword_init: true)
      WORDS = StoryWords.new(
        name: "deploy", title: "A deploy under load",
        slow: "While a server restarts its application, requests wait for the new version to load, or are refused; and a version that does not load takes the old one with it.",
        published: "Published: Capistrano and git push a release, and tmp/restart.txt is touched. What should be lost is nothing.",
        change: ["Capfile", "require \"paceline/capistrano\"      # without Capistrano: touch tmp/restart.txt"],
        shown: ["A version that does not load", "puma: does not load, SIGUSR2", "paceline: does not load, SIGUSR1"]
      )

      private

      def make_sections
        { "deploys" => Restarts.new(GOOD, setting, told_of("deploys")), "failing" => Restarts.new(BAD, setting, told_of("failing")) }
      end

      # One visit of each way for each round.
      class Restarts
        attr_reader :absent

        def initialize(names, setting, told)
          @ways = RestartWays.all.select { |way| names.include?(way.name) }.sort_by { |way| names.index(way.name) }
          @setting = setting
          @told = told
          @absent = {}
          @options = Options.new(restarts: setting.quick ? 1 : 2, failing: 1, clients: 25, think_ms: 100, boot_ms: 1500, work_ms: 5)
        end

        def steps = @setting.rounds * @ways.sum { |way| way.good? ? @options.restarts : 1 }

        def run
          seen = Hash.new { |all, way| all[way] = [] }
          @setting.rounds.times { |round| @ways.rotate(round).each { |way| visit(way, seen) } }
          [self.class.part(@ways.filter_map { |way| [way, seen[way]] if seen.key?(way) }, @options)]
        end

        # SEEN: pairs of a way and RestartVisit::Seen of each round.
        def self.part(seen, options)
          good = seen.any? { |way, _| way.good? }
          rows = seen.map { |way, rounds| row(way, rounds, seen.first[1], good) }
          note = "#{options.clients} clients, half of them on kept connections. #{good ? "p50, p99, longest: while versions change. Release folders and a `current` symlink for Paceline, as Capistrano has them; with Capistrano itself the time until the new version has ssh and git in it" \
            : "Requests lost: all without the right answer, until the end of the run"}. The application takes #{options.boot_ms} ms of processor time to load."
          StoryFigures::Part.new(title: good ? "A version that works" : "A version that does not load", note: note, main: good ? "p99" : "failed", baseline: (rows.first.name if good), rows: rows)
        end

        def self.row(way, rounds, base, good)
          failed = rounds.sum { |one| one.failed_kept + one.failed_new }
          figures = { "failed" => failed, "requests" => rounds.sum { |one| one.quiet.requests + one.during.requests } + failed, "seconds" => Arithmetic.median(rounds.flat_map(&:switched)) }.compact
          name = "#{way.server.name}: #{way.title}"
          return StoryFigures::Row.new(name: name, figures: figures) unless good

          p99 = ->(some) { some.map { |one| StoryFigures.ms(one.during.p99) } }
          times = { "p50" => rounds.map { |one| StoryFigures.ms(one.during.p50) }, "p99" => p99[rounds], "longest" => rounds.map { |one| StoryFigures.ms(one.during.max) } }
          StoryFigures.of_rounds(name, times, main: "p99", base: p99[base], figures: figures)
        end

        private

        def visit(way, seen)
          return skip(way) if @absent.key?("#{way.server.name}, #{way.title}")

          seen[way] << RestartVisit.new(way, @setting.processes, @options) { |what, done| @told.call("#{way.name}: #{what}", done) }.run
        rescue RunningServer::Failed, Errno::ENOENT => e
          @absent["#{way.server.name}, #{way.title}"] = e.message.lines.first.strip
          skip(way)
        end

        def skip(way) = (way.good? ? @options.restarts : 1).times { @told.call("#{way.name}: not run", true) }
      end
    end
  end
end
