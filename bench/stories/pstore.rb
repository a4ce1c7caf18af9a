# frozen_string_literal: true

# The story of PStore: a store that writes all of its file for each transaction, and sessions in it, beside Paceline's, which keeps PStore's interface.
require_relative "../pstore/contest"
require_relative "../pstore/requests"

module Bench
  module Stories
    class PstoreStory < Story
      RECORDS = 1_000
      # What PStoreContest and PStoreRequests ask of their options.
      Options = Struct.new(:rounds, :seconds, :request_seconds, :records, :processes, :clients, :sessions, keyword_init: true)
      WORDS = StoryWords.new(
        name: "pstore", title: "Sessions and records in PStore",
        slow: "Ruby's PStore reads and writes the whole file for each transaction, so each record more makes all others slower; and a PStore file for each session costs a file that is locked, read and replaced with each request.",
        published: "Published: a Rails application with sessions in PStore 170 requests/s, with a patched PStore 197, with sessions in cookies 222.",
        change: ["the script, and config/initializers/session_store.rb", "store = Paceline::PStore.new(\"beers.pstore\")\n" \
                                                                         "Rails.application.config.session_store :paceline_store, store: \"storage/sessions.paceline\""],
        shown: ["One record changed", "Ruby's PStore", "Paceline::PStore"]
      )
      WAYS = %w[pstore pstore-synced paceline paceline-synced files sqlite redis].freeze
      STORES = ["a PStore file each", "paceline", "cookies", "redis, by paceline"].freeze

      def self.packages = %w[redis-server ruby-redis]

      private

      def make_sections
        options = Options.new(rounds: setting.rounds, seconds: [setting.seconds / 10, 0.05].max, request_seconds: setting.seconds, records: [RECORDS], processes: 4, clients: 10,
                              sessions: setting.quick ? 100 : 1_000)
        { "sessions" => Sessions.new(setting, options, told_of("sessions")), "records" => Records.new(setting, options, told_of("records")) }
      end

      # A page of a Rails application that reads and changes its session.
      class Sessions
        def initialize(setting, options, told)
          @options = options
          @requests = PStoreRequests.new(setting.processes, options, setting.place, baseline: STORES[0], stores: STORES, &told)
        end

        def steps = @requests.steps
        def absent = @requests.absent

        def run
          note = "A small Rails application, served by Paceline in all rows: each row is where its sessions are. Each request reads and changes one. #{@options.sessions} visitors, #{@options.clients} connections. CPU with that of Redis, " \
                 "system calls without."
          @requests.run.summary.groups.map { |group| StoryFigures.of_group(group, title: "Sessions, #{group.shape}", note: note, baseline: STORES[0]) }
        end
      end

      # PStore's benchmark: one record read, one record changed.
      class Records
        def initialize(setting, options, told)
          @contest = PStoreContest.new(PStoreWays.named(WAYS), options, setting.place, &told)
        end

        def steps = @contest.steps
        def absent = @contest.absent

        def run
          @contest.run
          PStoreContest::WHATS.map { |what| self.class.part(what, @contest.rows.select { |row| row.what == what }) }
        end

        def self.part(what, rows)
          base = rows.find { |row| row.way == WAYS[0] }&.by_round
          rows = rows.map do |row|
            title = PStoreWays.named([row.way]).first.title
            StoryFigures.of_rounds(title, { "us" => row.by_round }, main: "us", base: base, figures: { "cpu" => row.cpu, "together" => row.together })
          end
          note = "A transaction of one of #{StoryFigures.text("requests", RECORDS)} records of a session's size, by one process. Synced, ultra_safe: on the disk when the transaction ends."
          StoryFigures::Part.new(title: "One record #{what == "read" ? "read" : "changed"}", note: note, main: "us", baseline: rows.first&.name, rows: rows)
        end
      end
    end
  end
end
