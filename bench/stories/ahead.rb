# frozen_string_literal: true

# The story of a page that is computed ahead: the same bytes by a controller, by a Rack middleware, by the front's page cache, and rendered before the second at
# which they change.
require_relative "../scheduled/contest"

module Bench
  module Stories
    class AheadStory < Story
      # Name, server, and when the application renders the page.
      WAYS = [["a controller, by Puma", "puma", "controller"], ["a controller, by Paceline", "paceline", "controller"], ["a Rack middleware, by Puma", "puma", "middleware"],
              ["a Rack middleware, by Paceline", "paceline", "middleware"], ["the page cache of Paceline", "paceline", "front"]].freeze
      WORDS = StoryWords.new(
        name: "ahead", title: "A page that is computed ahead",
        slow: "A page that is the same for everybody is rendered again for each visitor; and when it changes at a known time, all visitors wait for the new one at that second.",
        published: "Published: Rails Metal, a Rack middleware before the router, answered in 5 ms.",
        change: ["the controller, and paceline.toml for a page that changes at a known time", "expires_in 1.hour, public: true    # in the controller\n\n[[scheduled]]                       # in paceline.toml\npath = \"/sales/*\"\nat = \"daily 12:00\""],
        shown: ["The same page", WAYS[0][0], WAYS[4][0]]
      )
      APP = File.expand_path("../apps/ahead", __dir__)
      SALE = { true => { pages: 20, cost: 10, rate: 50, connections: 20 }, false => { pages: 100, cost: 20, rate: 200, connections: 100 } }.freeze

      def self.packages = %w[varnish]

      private

      def make_sections
        { "page" => contest(with: { connections: [1, 25] }, app: -> { app("controller") }, entries: entries, baseline: WAYS[0][0],
                            note: "One page of a small Rails application; all ways must give the same bytes."),
          "sale" => Sale.new(SALE.fetch(setting.quick).merge(rounds: setting.rounds), setting, told_of("sale")) }
      end

      def entries
        page = [Scenarios.new("page", "The same page", :ahead, [Kind.new("page", "/page", contains: "New beers")])]
        WAYS.map { |name, server, at| [StoryContest.named(Servers.named([server]).first, name), page, app(at)] }
      end

      def app(at) = App.new(name: :ahead, directory: APP, environment: { "BENCH_AHEAD" => at })

      # Pages that change at one second: rendered before it, or when they have expired.
      class Sale
        BASELINE = "paceline, expiry"

        def initialize(options, setting, told)
          @options = options
          @contest = ScheduledContest.new(options, setting.processes, &told)
        end

        def steps = @contest.steps
        def absent = @contest.absent

        def run
          [self.class.part(@contest.run, @options)]
        end

        # ROWS: ScheduledContest's.
        def self.part(found, options)
          p99 = ->(rounds) { rounds.map { |round| round[:across][1] } }
          rows = found.keys.sort_by { |name| [name == BASELINE ? 0 : 1, found.keys.index(name)] }.map do |name|
            rounds = found[name]
            StoryFigures.of_rounds(name, { "p99" => p99[rounds], "p50" => rounds.map { |round| round[:across][0] }, "longest" => rounds.map { |round| round[:across][2] },
                                           "cpu" => rounds.map { |round| round[:cpu] }, "switches" => rounds.map { |round| round[:switches] } },
                                   main: "p99", base: p99[found.fetch(BASELINE)], figures: { "failed" => rounds.sum { |round| round[:failed] } })
          end
          note = "#{options[:pages]} pages of #{options[:cost]} ms change at one second, while visitors ask for them at #{options[:rate]} requests/s. From half a second before it to #{ScheduledContest::AFTER} s after it."
          StoryFigures::Part.new(title: "When the pages change", note: note, main: "p99", baseline: BASELINE, rows: rows)
        end
      end
    end
  end
end
