# frozen_string_literal: true

# The story of three applications under five servers, a hundred visitors at once: a Rails application, Redmine, and a blog whose pages are files.
module Bench
  module Stories
    class ServersStory < Story
      NAMES = %w[puma thin unicorn passenger paceline].freeze
      USERS = 100
      WORDS = StoryWords.new(
        name: "servers", title: "Three applications, five servers",
        slow: "The same application answers more or fewer requests depending on the server before it, and a page that is only a file need not reach Ruby at all.",
        published: "Published: three applications, 10,000 requests of 100 users, by Mongrel, Thin and Passenger.",
        change: ["the application's folder", "paceline -e production -w 2 -t 5   # instead of puma, thin, unicorn or passenger; the application stays as it is"],
        shown: ["A page of a blog", "puma", "paceline"]
      )

      private

      def make_sections
        { "blog" => served("blog") { Scenarios.new("blog", "A page of a blog, a file in public/", :blog, [Kind.new("blog", "/posts/1.html", contains: "The brew house")], warm_up: 500) },
          "brewery" => served("brewery") { Scenarios.named(["rails"]).first },
          "redmine" => served("redmine") { Scenarios.named(["redmine"]).first } }
      end

      # 100 connections, kept and new.
      def served(app)
        scenarios = [yield]
        contest(with: { connections: [USERS], full: true }, app: -> { Apps.prepare(app) }, entries: Servers.named(NAMES).map { |server| [server, scenarios] }, baseline: "puma",
                note: "#{USERS} clients, of which each sends its next request when it has the answer; #{Servers::WORKERS} workers each.")
      end
    end
  end
end
