# frozen_string_literal: true

# The story of a page that makes fifteen HTTPS calls to one host: a connection and a handshake for each, kept connections, and Paceline's ways.
require_relative "../outbound/contest"
require_relative "../outbound/workers"

module Bench
  module Stories
    class ProvisionStory < Story
      WAYS = %w[net-http faraday persistent install get all].freeze
      LOADED = %w[net-http persistent install all].freeze
      DELAY_MS = 30.0
      WORDS = StoryWords.new(
        name: "provision", title: "Fifteen HTTPS calls for a page",
        slow: "A page that asks another service many times opens a connection and makes a TLS handshake for each call, and waits for one answer after the other.",
        published: "Published: 8 to 15 calls to one host in a request; 8 s before connections were kept, 2.3 s after.",
        change: ["config/initializers/http.rb", "Paceline::HTTP.install!            # Net::HTTP keeps its connections, in the front, for all workers\n\n" \
                                                "# and where the calls do not need each other:\nPaceline::HTTP.all { |calls| urls.each { |url| calls.get(url) } }"],
        shown: ["Fifteen calls", "Net::HTTP.get_response", "Paceline::HTTP.all"]
      )

      def self.packages = %w[ruby-faraday ruby-net-http-persistent openssl nginx]

      private

      def make_sections
        { "calls" => Calls.new(setting, told_of("calls")), "under load" => Loaded.new(setting, told_of("under load")) }
      end

      # A batch of calls by a process of its own, over a wire with a delay.
      class Calls
        def initialize(setting, told)
          @contest = OutboundContest.new(OutboundPlaces::Delayed.new(DELAY_MS), OutboundWays.named(WAYS), setting.processes, rounds: setting.rounds, warm: 2, slow: 1, together: 5, &told)
        end

        def steps = @contest.steps
        def absent = @contest.absent

        def run
          @contest.run
          [self.class.part(@contest.rows, @contest.data[:visits], "#{OutboundCallers::CALLS} calls for 1 KB each, #{@contest.place.title}. Connections: opened for a page on a process that has made one before.")]
        end

        # ROWS and VISITS: OutboundContest's.
        def self.part(rows, visits, note)
          rounds = visits.group_by { |visit| visit[:way] }.transform_values { |some| some.map { |visit| Arithmetic.median(visit[:ms]) } }
          base = rounds[rows.first.way] if rows.any? && rows.first.wrong.nil?
          StoryFigures::Part.new(title: "Fifteen calls", note: note, main: "ms", baseline: rows.first&.title, rows: rows.map { |row| of_row(row, rounds[row.way], base) })
        end

        def self.of_row(row, rounds, base)
          return StoryFigures::Row.new(name: row.title, wrong: row.wrong) if row.wrong

          StoryFigures.of_rounds(row.title, { "ms" => rounds }, main: "ms", base: base, figures: { "cpu_ms" => row.cpu, "opened" => row.opened })
        end
      end

      # Pages that sixteen clients ask for at once, of eight workers.
      class Loaded
        CALLS = { true => 600, false => 6_000 }.freeze

        def initialize(setting, told)
          @setting = setting
          @contests = Array.new(setting.rounds) { OutboundWorkers.new(OutboundPlaces::Local.new, OutboundWays.named(LOADED), setting.processes, calls: CALLS.fetch(setting.quick), &told) }
        end

        def steps = @contests.sum(&:steps)
        def absent = @contests.map(&:absent).reduce({}, :merge)

        def run
          @contests.each(&:run)
          [self.class.part(@contests.map(&:rows))]
        end

        # ALL: OutboundWorkers' rows of each round.
        def self.part(all)
          by_way = all.flatten.group_by(&:title)
          rates = by_way.transform_values { |rows| rows.map { |row| row.calls / row.seconds } }
          base = rates.values.first
          rows = by_way.map do |title, some|
            wrong = some.filter_map(&:wrong).first
            next StoryFigures::Row.new(name: title, wrong: wrong) if wrong

            StoryFigures.of_rounds(title, { "opened" => some.map(&:opened), "ms" => some.map(&:ms) }, main: "opened", base: by_way.values.first.map(&:opened),
                                   figures: { "rate" => Arithmetic.median(rates[title]) })
          end
          note = "#{OutboundWorkers::CLIENTS} clients, #{OutboundWorkers::WORKERS} workers with #{OutboundWorkers::THREADS} threads, on loopback: how many TLS connections the called service sees; ms: a page with its " \
                 "#{OutboundCallers::CALLS} calls, as its client waits for it; requests/s are calls a second."
          StoryFigures::Part.new(title: "Under load, #{StoryFigures.text("requests", all.flatten.map(&:calls).max || 0)} calls", note: note, main: "opened", baseline: by_way.keys.first, rows: base ? rows : [])
        end
      end
    end
  end
end
