# frozen_string_literal: true

# What is measured: each scenario's application, requests and the answers expected.
require_relative "kind"

module Bench
  # LONGER: times --seconds. WARM_UP: requests before anything is timed; memory is read after those of all scenarios of an app. SHAPES: of its loads, if the
  # command line has no say in them; with none it is only warmed up.
  Scenario = Struct.new(:name, :title, :app, :kinds, :longer, :warm_up, :shapes, keyword_init: true) do
    # Pairs of a Kind and its share: of two kinds the second is the rare one, more have equal shares.
    def mix
      kinds.size == 2 ? kinds.zip([0.9, 0.1]) : kinds.map { |kind| [kind, 1.0 / kinds.size] }
    end
  end

  # One way to load a server: so many connections, kept or not, or a fixed rate.
  Shape = Struct.new(:connections, :keep_alive, :rate) do
    def to_s
      rate ? "open loop, #{rate} requests/s" : "#{connections} connection#{"s" if connections > 1}, #{keep_alive ? "keep-alive" : "new each time"}"
    end

    def key
      rate ? "rate#{rate}" : "c#{connections}#{keep_alive ? "k" : "n"}"
    end
  end

  module Scenarios
    MEGABYTE = 1 << 20
    # Repeats every 64 KB but no power of two within.
    UPLOAD = (Random.new(7).bytes(65_521) * 17).byteslice(0, MEGABYTE).freeze
    HELLO = "Hello from the application\n"
    EVERY_SHAPE = %w[hello chunks].freeze
    KEPT, NEW, ONE = Shape.new(64, true), Shape.new(25, false), Shape.new(1, true)
    # The loads of each scenario, if no number of connections is given.
    SHAPES = { "hello" => [KEPT, NEW, ONE], "chunks" => [KEPT, NEW, ONE],
               "mixed" => [Shape.new(50, false), Shape.new(50, true), Shape.new(nil, true, 40)] }.tap { |it| it.default = [Shape.new(25, true), NEW] }.freeze
    FULL = [1, 25, 64, 100].freeze
    DOWNLOAD_BYTES = 10 * MEGABYTE

    def self.all
      @all ||= [
        new("hello", "Rack, 27 bytes", :rack, [Kind.new("hello", "/hello", expected: HELLO)], warm_up: 2000),
        new("chunks", "Rack, 1,300 strings of 39 bytes", :rack, [Kind.new("chunks", "/chunks", contains: "line 1299 ")], warm_up: 300),
        new("feed", "Rack, 54 KB of XML by Builder in 4,000 pieces", :rack, [Kind.new("feed", "/feed", contains: "Beer 169 ")], warm_up: 50),
        new("upload", "Rack, 1 MB sent", :rack, [Kind.new("upload", "/upload", method: "POST", body: UPLOAD, expected: "#{MEGABYTE}\n")], warm_up: 50),
        new("download", "Rack::Files, 10 MB received", :rack, [Kind.new("download", "/download.bin")], warm_up: 20),
        new("rails", "Rails with SQLite, a list of 24 beers", :brewery, [Kind.new("rails", "/beers", check: :page, contains: "<h1>")], longer: 1.5, warm_up: 300),
        new("plain", "Rails, `render plain` of 27 bytes", :brewery, [Kind.new("plain", "/plain", expected: HELLO)], longer: 1.5, warm_up: 300),
        new("mixed", "Rails, a beer; 10 % sleep 200 ms; p50 and p99 of the others", :brewery,
            [Kind.new("fast", "/beers/1", check: :page, contains: "<h1>"), Kind.new("slow", "/slow?ms=200", check: :page)], longer: 3, warm_up: 100),
        new("redmine", "Redmine, /", :redmine, [Kind.new("redmine", "/", check: :page, contains: "Redmine")], longer: 1.5, warm_up: 200),
        new("issues", "Redmine, a list of 25 issues", :redmine, [Kind.new("issues", "/projects/brewhouse/issues", check: :page, contains: "Hop delivery")], longer: 1.5, warm_up: 100)
      ].freeze
    end

    def self.new(name, title, app, kinds, longer: 1, warm_up: 100, shapes: nil)
      Scenario.new(name: name, title: title, app: app, kinds: kinds, longer: longer, warm_up: warm_up, shapes: shapes)
    end

    def self.named(names)
      return all if names.empty?

      # Those of `cases` are many, so they are run only where they are named.
      known = all + RackCases.all
      names.flat_map { |name| name == "cases" ? RackCases.all.map(&:name) : name }.map do |name|
        known.find { |scenario| scenario.name == name } or raise ArgumentError, "no scenario #{name}; there are cases, #{known.map(&:name).join(", ")}"
      end
    end

    # With CONNECTIONS given: the fast ones at every shape. Where a request takes milliseconds, connecting is nothing beside it and 100 clients
    # only wait longer than 25: of those shapes the telling ones, unless everything is asked for.
    def self.shapes(scenario, connections, everything)
      return scenario.shapes if scenario.shapes
      return SHAPES[scenario.name] if scenario.name == "mixed" || !(connections || everything)

      (connections || FULL).product([true, false]).filter_map do |count, keep_alive|
        Shape.new(count, keep_alive) if everything || EVERY_SHAPE.include?(scenario.name) || (keep_alive ? count < 100 || scenario.name == "rails" : count == 25)
      end
    end
  end
end

require_relative "rack_cases"
