# frozen_string_literal: true

# `bin/bench auto-hits`: how many requests the automatic page cache answers, of the brewery and of Redmine, beside a cache that drops pages by
# table and one that keeps them for some seconds; and how many of these answers were not the application's.
#
#   bin/bench auto-hits [--apps brewery,redmine] [--requests 4000] [--writes 3] [--rate 10] [--ttl 5] [--seed 1] [--quick] [--output DIR]
require "tmpdir"
require_relative "lib/contest_command"
require_relative "auto_hits/trace"
require_relative "../test/auto_cache/crawl/brewery"
require_relative "../test/auto_cache/crawl/redmine"

module Bench
  class AutoHits < ContestCommand
    NAMES = { automatic: "automatic page cache", tables: "dropped by table", ttl: "kept for %d s" }.freeze
    HEAD = ["application", "cache", "requests", "hits", "hit rate", "not the application's"].freeze
    PAGES = ["page", "requests", "automatic", "by table", "by time", "why the automatic cache keeps none"].freeze
    # Where each is prepared, unless BREWERY_DIR or REDMINE_DIR names one that is.
    PREPARED = { "brewery" => "tmp/bench/hits_brewery", "redmine" => "tmp/redmine" }.transform_values { |dir| File.join(Servers::HERE, dir) }.freeze
    Result = Struct.new(:trace, :routes, :kept)

    private

    def measure = @options[:apps].to_h { |app| [app, of(app)] }

    def of(app)
      prepared = ENV.fetch("#{app.upcase}_DIR") { prepare(app) }
      kind = { "brewery" => Crawl::Brewery, "redmine" => Crawl::Redmine }.fetch(app)
      # In the checkout the brewery finds the gem.
      Dir.mktmpdir("auto-hits-", FileUtils.mkdir_p(File.join(Servers::HERE, "tmp/bench")).first) do |dir|
        kind.copy(prepared, dir)
        FileUtils.cp(File.join(__dir__, "auto_hits/tables.rb"), File.join(dir, "config/initializers/98-bench-tables.rb"))
        # The brewery's pages name the process that has made them.
        server = Crawl::Served.new(dir, workers: 1)
        ask(server, kind, prepared)
      ensure
        server&.stop
      end
    end

    def ask(server, kind, prepared)
      random = Random.new(@options[:seed])
      trace = AutoHitsTrace.new(random, **@options.slice(:rate, :writes, :ttl))
      account = File.join(prepared, "account.json")
      crowd = kind.new(*[server, (JSON.parse(File.read(account)) if kind == Crawl::Redmine), random].compact) { |*one| trace.heard(*one) }
      kept = server.prove(crowd.people.first(2), crowd.pages)
      warn "#{kind.name.split("::").last}: #{kept.size} of #{crowd.pages.size} pages can be kept"
      trace.run(crowd, @options[:requests])
      Result.new(trace, server.routes, kept)
    end

    def prepare(app)
      environment = { "PATH" => ENV.fetch("PATH") }
      arguments = app == "brewery" ? ["production"] : []
      FileUtils.mkdir_p(File.dirname(PREPARED.fetch(app)))
      system(environment, File.join(Servers::HERE, "test", app, "prepare"), PREPARED.fetch(app), *arguments, exception: true)
      PREPARED.fetch(app)
    end

    def name(cache) = format(NAMES.fetch(cache), @options[:ttl])
    def percent(part) = format("%.0f %%", part * 100)

    def rows(results)
      results.flat_map do |app, result|
        AutoHitsTrace::CACHES.map do |cache|
          count = result.trace.total(cache)
          [app, name(cache), rounded(count.requests), rounded(count.hits), percent(count.rate), rounded(count.wrong)]
        end
      end
    end

    def pages(result)
      result.trace.pages.sort_by { |_, counts| -counts[:automatic].requests }.map do |route, counts|
        [route.delete_prefix("GET "), rounded(counts[:automatic].requests), *AutoHitsTrace::CACHES.map { |cache| percent(counts[cache].rate) }, refusal(result.routes[route])]
      end
    end

    def refusal(route)
      return "" if route.nil? || route["stage"] == "serving"
      return route["off_because"].to_s if route["stage"] == "off"

      first = route["refusals"].first or return route["stage"]
      [first["why"], first["at"]].reject { |text| text.to_s.empty? }.join(" in ")
    end

    def page(facts, results)
      parts = results.map do |app, result|
        "## #{app}\n\n#{rounded(result.trace.writes)} writes.\n\n#{align(PAGES, pages(result), texts: [0, 5])}\n"
      end
      <<~PAGE
        # #{@options[:command]}

        #{facts["date"]}

        #{@options[:requests]} requests, drawn with seed #{@options[:seed]}: #{@options[:rate]} a second at drawn times, before #{@options[:writes]} of a hundred somebody writes. Brewery: six guests who come and
        go; notes on beers, and prices. Redmine: half of the requests by three people who have signed in (sessions are not looked up by their token: `redmine_verify_sessions`
        is off, as in Redmine's tests), half by strangers; issues, the wiki, news, time, rights. One line of Redmine is changed besides: SudoMode does not read the clock. Before that, each page of a route that can be kept was asked for until the route is shown.
        Hits of the automatic cache are the server's own answers. The two others are reckoned from the same requests: each keeps every page under its address, one copy for all guests or
        strangers and one for each person who has signed in; one drops it when a table is written that it has read, the other after #{@options[:ttl]} s. Not the application's: the application, asked at the same
        moment, gave another page, tokens aside. On a machine that is so busy that the server reads announcements late, it shows no pages for a moment, and the automatic cache has fewer hits.

        #{align(HEAD, rows(results), texts: [0, 1])}

        #{parts.join("\n")}
        Versions: #{versions.map { |what, version| "#{what} #{version}" }.join(", ")}. #{facts["ruby"]}.
      PAGE
    end

    def versions = @versions ||= Machine.versions.slice("paceline", "redmine", "ruby-rails", "ruby-sqlite3")

    def figures(results)
      found = results.transform_values { |result| { "writes" => result.trace.writes, "pages" => result.trace.pages.transform_values { |counts| counts.transform_values(&:to_h) } } }
      { "versions" => versions, "results" => found }
    end
  end
end

options = { apps: Bench::AutoHits::PREPARED.keys, requests: 4000, writes: 3.0, rate: 10.0, ttl: 5, seed: 1, output: File.join(Bench::Servers::HERE, "bench/results") }
options[:command] = ["bin/bench auto-hits", *ARGV].join(" ")
OptionParser.new do |parser|
  parser.banner = "bin/bench auto-hits [options]"
  parser.on("--apps A,B", Array, options[:apps].join(",")) { |apps| options[:apps] = apps & Bench::AutoHits::PREPARED.keys }
  %i[requests ttl seed].each { |key| parser.on("--#{key} N", Integer) { |value| options[key] = value } }
  %i[writes rate].each { |key| parser.on("--#{key} N", Float) { |value| options[key] = value } }
  parser.on("--quick", "300 requests; the result goes to tmp/bench/results") { options.update(requests: 300, output: File.join(Bench::Servers::HERE, "tmp/bench/results")) }
  parser.on("--output DIR") { |directory| options[:output] = directory }
end.parse!
Bench::Invocation.need_paceline("auto-hits")
Bench::Invocation.interrupt_by_signals
Bench::Invocation.of_command { Bench::AutoHits.new("auto-hits", options).run }
