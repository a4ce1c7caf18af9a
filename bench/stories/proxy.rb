# frozen_string_literal: true

# The story of Redmine behind a cache that keeps each visitor's pages for seconds, whatever the application says, while its author adds, edits and deletes issues.
require_relative "../cache/story"

module Bench
  module Stories
    class ProxyStory < Story
      # What CacheStory asks of its options.
      Options = Struct.new(:rounds, :seconds, :servers, :requests, keyword_init: true)
      SHAPES = [Shape.new(1, true), Shape.new(25, true), Shape.new(500, true)].freeze
      DAY = 86_400
      WORDS = StoryWords.new(
        name: "proxy", title: "Redmine behind a cache by cookie",
        slow: "Redmine says `private` on every page, so no cache may keep one, and each request of each visitor runs the application.",
        published: "Published: a proxy that keeps each session's pages for some seconds; 283,659,084 requests in 24 hours, extrapolated from ab.",
        change: ["paceline.toml", Caches::RULE.strip],
        shown: ["Redmine's front page, 25", CacheStory::ALONE, "paceline"]
      )

      private

      def make_sections = { "redmine" => Cached.new(setting, told_of("redmine")) }

      # The loads, with what the author saw of them.
      class Cached
        def initialize(setting, told)
          @options = Options.new(rounds: setting.rounds, seconds: setting.seconds, requests: setting.quick ? 5_000 : 100_000)
          @story = CacheStory.new(setting.processes, @options, shapes: SHAPES, alone: %w[webrick], &told)
        end

        def steps = @story.loads
        def absent = @story.absent

        def run
          summary = @story.run
          stale = self.class.stale(@story.authors)
          summary.groups.map { |group| part(group, stale) }
        end

        # {server => pages that its author was shown as they were before his change}, without load and beside it.
        def self.stale(authors)
          authors.group_by(&:server).transform_values { |rounds| rounds.sum { |one| one.idle.stale.size + one.busy.stale.size } }
        end

        private

        def part(group, stale)
          more = group.rows.reject(&:wrong).to_h { |row| [row.server, { "day" => row.rate * DAY, "stale" => stale[row.server] }.compact] }
          StoryFigures.of_group(group, title: "Redmine's front page, #{group.shape}", baseline: CacheStory::ALONE, more: more,
                                       note: "One session's page. Stale pages: those that the author saw in a session of his own as they were before his change. In 24 hours: requests/s times #{StoryFigures.text("requests", DAY)}, which nobody has waited for.")
        end
      end
    end
  end
end
