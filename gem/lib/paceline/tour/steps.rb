# frozen_string_literal: true

require_relative "measured"
require_relative "cached_page"

module Paceline
  module Tour
    # Starts the application: how long it takes, and what the workers share.
    module ServeStep
      TITLE = "Serve it"

      def self.run(screen, served, path)
        screen.command("paceline")
        seconds = served.start
        screen.output("Listening on #{served.base}")
        response = served.get(path)
        screen.say("GET #{path}: #{response.code} #{response.message}, #{Measured.bytes(response.body.to_s.bytesize)}")
        screen.figure("#{format("%.1f", seconds)} s until it serves",
                      "The application was detected and loaded once; the workers are forked from that copy and share its memory. The front " \
                      "holds requests that come earlier until the first worker is ready. You can open #{served.base}#{path} in a browser now.")
      end
    end

    # Where a request's time goes, measured from outside and inside at once.
    module TimelineStep
      TITLE = "See where a request's time goes"
      # Enough for a median, and few enough for slow pages.
      LOAD = %w[-k -c 1 -t 3].freeze
      private_constant :LOAD

      def self.run(screen, served, path)
        url = served.url(path)
        screen.command("paceline bench #{LOAD.join(" ")} #{url}")
        text, = served.run("bench", "-q", *LOAD, "--save", served.file("measured.json"), url)
        screen.output(text)
        measured = Measured.read(served.file("measured.json"))
        screen.figure("#{Measured.time(measured.median)}: the median", explained(measured))
      end

      def self.explained(measured)
        name, share = measured.largest_part
        most = name ? "Most of it, #{(share * 100).round} %, is #{Measured::PARTS.fetch(name, name)}. " : ""
        "#{most}The bar has a letter for each twentieth or so of the time: what the front, the queue, SQL, views, the garbage collector and " \
          "the rest of the application took. Each line of the log has the time in the queue, the application and the garbage collector."
      end
    end

    # Keeps the page for ten seconds, one copy for each visitor where it sets cookies.
    module PageCacheStep
      TITLE = "Cache a page"
      LOAD = %w[-k -c 1 -t 2].freeze
      private_constant :LOAD

      def self.run(screen, served, path)
        page = CachedPage.new(served, path)
        before = page.measure(LOAD)
        screen.say("These lines in paceline.toml keep the page for ten seconds#{page.visitors? ? ", one copy for each visitor, since it sets a cookie" : ""}:")
        screen.output(page.settings)
        screen.command("paceline")
        served.start(page.settings)
        page.visit
        after = page.measure(LOAD)
        return screen.figure("Not stored: #{page.reason}", "`paceline cache stats` names the headers that keep pages from the cache; docs/caching.md says what to do.") unless page.hit?

        screen.figure("#{Measured.time(before.median)} -> #{Measured.time(after.median)}: the median without and with the cache",
                      "The front answered from memory and Ruby did nothing: #{(before.median / after.median).round} times as fast. Pages that say " \
                      "`expires_in 10.seconds, public: true` need no rule, and `Paceline.cache.purge` drops them when something changes.")
      end
    end

    # Looks for a line that makes the page faster.
    module DoctorStep
      TITLE = "Ask the doctor"

      def self.run(screen, served, path)
        arguments = ["--offline", ".", "--path", path, "--server", "paceline", "--no-keep"]
        screen.command("paceline doctor #{arguments.first(4).join(" ")}")
        screen.say("Copies of the application answer the page with and without each change, in turn. This takes a minute or two.")
        served.stop
        text, = served.run("doctor", *arguments)
        screen.output(text, lines: 40)
        screen.figure(text[/\A.*?: (.*?)(?: \(|$)/, 1] || "No result",
                      "Only changes whose gain is sure (95 %) and that leave the pages as they are become advice. `paceline doctor apply N` writes " \
                      "the line and takes it back if the live gain is less. On a running server the doctor replays what visitors asked for.")
      end
    end

    # New code under load, without a failed request.
    module DeployStep
      TITLE = "Deploy under load"
      RATE = 20
      private_constant :RATE

      def self.run(screen, served, path)
        url = served.url(path)
        screen.say("While #{RATE} requests a second come in, the application is restarted, as a deployment would:")
        screen.command("paceline restart --wait")
        load = ["--rate", "#{RATE}/s", "-t", "8", "--save", served.file("measured.json")]
        _, restarted = served.beside("bench", "-q", *load, url) { served.run("restart", "--wait") }
        screen.output(restarted.first)
        measured = Measured.read(served.file("measured.json"))
        screen.figure("#{measured.answers} requests, #{measured.failed} failed",
                      "The new code is loaded beside the old and takes over when it is ready; if it does not start, the old code keeps " \
                      "serving. Capistrano's `tmp/restart.txt`, a new `current` link and USR1 do the same; `paceline rollback` goes back.")
        screen.say("")
        screen.say("That was the tour. Next: `paceline` in this directory, `paceline dashboard`, and docs/getting-started.md.")
      end
    end

    STEPS = [ServeStep, TimelineStep, PageCacheStep, DoctorStep, DeployStep].freeze
  end
end
