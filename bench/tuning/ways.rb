# frozen_string_literal: true

# The ways to serve that `bin/bench tuning` compares, and the pages that they serve. It starts nothing.
require_relative "../lib/scenarios"
require_relative "../lib/servers"

module Bench
  # TEXT: flags of Paceline, variables of the environment before them; or `puma`. {paths} in it stands for the pages that are asked for before memory is read:
  # "--warm-up {paths}" is one --warm-up for each.
  TuningWay = Struct.new(:text, :threads) do
    # Also the name of a folder.
    def name = "t#{threads} #{title}".tr("/", "_")

    def title = text.empty? ? "(defaults)" : text

    # PATHS: of the application.
    def server(paths)
      Server.new(name: name, worker: text == "puma" ? /cluster worker/ : /\Apaceline worker/, threads: threads, command: ->(port, _) { command(port, paths) })
    end

    def command(port, paths)
      bind = ["-C", "-", "-b", "tcp://127.0.0.1:#{port}", "-e", "production", "-w", Servers::WORKERS, "-q"]
      return ["puma", *bind, "-t", "#{threads}:#{threads}", "--preload"] if text == "puma"

      variables, flags = text.split.partition { |word| word.match?(/\A[A-Z_0-9]+=/) }
      flags = flags.slice_when { |_, word| word.start_with?("-") }.flat_map { |flag, *values| values == ["{paths}"] ? paths.flat_map { |path| [flag, path] } : [flag, *values] }
      # The variable would win over the flag.
      unset = ["--unset=RUBY_YJIT_ENABLE"] if flags.include?("--yjit")
      ["env", *unset, *variables, Servers.paceline, *bind, "-t", threads, *Servers::AS_ROOT, *flags]
    end
  end

  module TuningPages
    # Each choice that an operator has, beside what is done without one.
    WAYS = ["", "--oob-gc=false", "--malloc-arenas 2", "--malloc-arenas 0", "--yjit off", "--compact --warm-up {paths}", "--warm-up {paths}"].freeze
    # Asked for in turn before memory is read.
    MEMORY = {
      brewery: %w[/beers /beers/1 /breweries /beers/2 /], json: %w[/beers.json],
      redmine: %w[/ /projects/brewhouse/issues /projects /issues/1 /projects/brewhouse /login /projects/brewhouse/activity /search?q=hop]
    }.freeze
    # The page, what it is, its application and path, what must be in it.
    ALL = {
      "list" => ["Rails with SQLite, a list of 24 beers", :brewery, "/beers", "<h1>"],
      "plain" => ["Rails, `render plain` of 27 bytes", :brewery, "/plain", Scenarios::HELLO],
      "json" => ["Rack, 200 records as JSON, 300,000 objects kept", :json, "/beers.json", "Beer 199"],
      "issues" => ["Redmine, a list of 25 issues", :redmine, "/projects/brewhouse/issues", "Hop delivery"]
    }.freeze
    # Requests before a page is timed, beside those before memory is read: each worker's YJIT has compiled what the page runs. Redmine's take a tenth of a second each,
    # and it is measured without YJIT.
    WARM_UP = Hash.new(600).merge(redmine: 60).freeze

    module_function

    # {app => its scenarios}: of each of the pages NAMES, under SHAPE, and the one of REQUESTS (0: none) before memory is read.
    def scenarios(names, shape, requests)
      names.group_by { |name| ALL.fetch(name)[1] }.to_h do |app, pages|
        timed = pages.map { |name| timed(name, *ALL.fetch(name), shape) }
        [app, requests.zero? ? timed : [memory(app, requests), *timed]]
      end
    end

    def timed(name, title, app, path, contains, shape)
      Scenarios.new(name, title, app, [Kind.new(name, path, check: :page, contains: contains)], warm_up: WARM_UP[app], shapes: [shape])
    end

    def memory(app, requests)
      kinds = MEMORY.fetch(app).each_with_index.map { |path, i| Kind.new("memory#{i}", path, check: :status) }
      Scenarios.new("memory", "", app, kinds, warm_up: requests, shapes: [])
    end
  end
end
