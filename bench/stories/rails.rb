# frozen_string_literal: true

# The story of two versions of Rails: the same scaffold on Rails 6.1 and Ruby 3.1 (this Debian) and on Rails 7.2 and Ruby 3.3 (Debian 13 beside it, bin/trixie), by
# `paceline compare`, without sessions, with a new visitor for each request and with a visitor's session.
require_relative "../rails/versions"

module Bench
  module Stories
    class RailsStory < Story
      WORDS = StoryWords.new(
        name: "rails", title: "The same scaffold on two versions of Rails",
        slow: "A new version of Rails and of Ruby changes speed and memory of every page at once, and posts that compare two of them measure one after the other, on a machine that has changed meanwhile.",
        published: "Published: the same scaffold on two versions of Rails, with sessions on and off, in requests/s; and memory after a cold start and after 3,000 requests: private dirty, heap slots used and free.",
        change: ["a terminal, for two versions of any application", "paceline compare shop-old shop-new"],
        shown: ["The list, no sessions", "Rails 6.1, Ruby 3.1", "Rails 7.2, Ruby 3.3"]
      )

      def self.packages = %w[ruby ruby-rails ruby-sqlite3]

      private

      def make_sections
        { "versions" => RailsVersions.new(setting, WORDS.shown.last(2), told_of("versions")) }
      end
    end
  end
end
