# frozen_string_literal: true

# One application on two versions of Rails by `paceline compare --json`, in several ways to have sessions: parts of its figures. The second version lives in another
# system, which a small script in the place of `ruby` enters. Measures nothing itself.
require "fileutils"
require "json"
require "open3"
require_relative "../lib/apps"
require_relative "../lib/processes"
require_relative "../lib/servers"
require_relative "../story/figures"

module Bench
  class RailsVersions
    APP = File.expand_path("../apps/scaffold", __dir__)
    TRIXIE = File.join(Servers::HERE, "bin/trixie")
    PATH = "/people"
    # TITLE begins the part's title; MEMORY: whether its memory is a row.
    Way = Struct.new(:title, :sessions, :flags, :memory, keyword_init: true)
    WAYS = [Way.new(title: "no sessions", sessions: "off", flags: [], memory: true), Way.new(title: "a new visitor for each request", sessions: "on", flags: [], memory: false),
            Way.new(title: "a visitor's session", sessions: "on", flags: ["--cookies"], memory: true)].freeze
    REQUESTS = { true => 300, false => 3_000 }.freeze
    MB = 1_048_576.0

    class Failed < StandardError; end

    attr_reader :absent

    # NAMES of the two versions.
    def initialize(setting, names, told)
      @setting = setting
      @names = names
      @told = told
      @absent = {}
    end

    def steps = WAYS.size

    def run
      why = self.class.missing
      raise Failed, why if why

      prepare
      results = WAYS.to_h { |way| [way, compared(way)] }.compact
      raise Failed, @absent.values.first if results.empty?

      results.map { |way, result| self.class.page(result, way, @names) } + %w[cold after].map { |moment| self.class.memory(results, moment, @names) }
    end

    # Why the second version can't be run here; nil if it can.
    def self.missing
      return "Rails 7.2 runs in a chroot, which needs root" unless Process.uid.zero?

      root = IO.popen([TRIXIE, "path"], &:read).strip
      "there is no Rails 7.2 beside this machine: run bin/trixie setup (as root)" unless Dir.exist?(File.join(root, "usr/share/rubygems-integration/all/specifications"))
    end

    # RESULT: of compare. The rounds of A are the baseline.
    def self.page(result, way, names)
      page = result.fetch("pages").fetch(PATH)
      figures = page.fetch("figures")
      base = figures.fetch("A").fetch("rounds").map { |round| round["rate"] }
      rows = figures.values.zip(names).map { |side, name| of_side(name, side, base) }
      settings = result.fetch("settings")
      note = "#{PATH}: 24 records of SQLite in a table. #{settings["clients"]} clients on kept connections, #{settings["workers"]} workers with #{settings["threads"]} threads; both versions run at once, and are loaded in turn, in random order."
      StoryFigures::Part.new(title: "The list, #{way.title}", note: note, main: "rate", baseline: names.first, rows: rows)
    end

    def self.of_side(name, side, base)
      return StoryFigures::Row.new(name: name, wrong: "#{side["wrong"]} of #{side["answers"]} answers are wrong") if side["wrong"].to_i.positive?

      of = ->(figure, factor = 1) { side.fetch("rounds").map { |round| round[figure] && (round[figure] * factor) } }
      rounds = { "rate" => of["rate"], "p50" => of["p50"], "p99" => of["p99"], "cpu" => of["cpu_ms", 1000], "switches" => of["switches"] }
      StoryFigures.of_rounds(name, rounds, main: "rate", base: base, figures: { "calls" => side["system_calls"] }.compact)
    end

    # RESULTS: {way => result}. MOMENT: cold or after.
    def self.memory(results, moment, names)
      rows = results.select { |way, _| way.memory }.flat_map do |way, result|
        result.fetch("sides").values.zip(names).map do |side, name|
          memory = side.fetch("memory").fetch(moment)
          figures = { "pss_mb" => memory["pss"] / MB, "private_mb" => memory["private_dirty"] / MB, "slots_used" => memory["slots_used"], "slots_free" => memory["slots_free"] }
          figures["start"] = side["start_seconds"] if moment == "cold"
          StoryFigures::Row.new(name: "#{name}, #{way.title}", figures: figures.compact)
        end
      end
      requests = StoryFigures.text("requests", results.values.first.dig("settings", "requests"))
      title = moment == "cold" ? "Memory, cold: before the first request" : "Memory after #{requests} requests"
      note = "All processes of the application, without the front. PSS counts pages that they share once; private dirty pages are those that only one of them has. Heap slots: the mean of its workers, by GC.stat. One start each."
      StoryFigures::Part.new(title: title, note: note, main: "pss_mb", rows: rows)
    end

    private

    # The native part for both Rubies, and the script that stands for the second Ruby.
    def prepare
      FileUtils.mkdir_p(databases)
      Apps.command(File.join(Servers::HERE, "bin/native"))
      Apps.command(TRIXIE, "run", File.join(Servers::HERE, "bin/native"))
      File.write(ruby, "#!/bin/sh\n# Ruby of Debian 13, in its own system.\nexec '#{TRIXIE}' run ruby \"$@\"\n")
      File.chmod(0o755, ruby)
    end

    def ruby = File.join(Apps::WORK, "ruby-trixie")
    def databases = File.join(Apps::WORK, "scaffold")

    # Nil if one of the versions could not be measured; why is in `absent` then.
    def compared(way)
      @told.call(way.title, false)
      text, complaint, status = capture(command(way), environment(way))
      return JSON.parse(text) if status.success?

      @absent[way.title] = complaint.lines.map(&:strip).reject(&:empty?).first(3).join(" / ")
      nil
    ensure
      @told.call(way.title, true)
    end

    # It is told to end, if this program is, and ends what it has started.
    def capture(command, environment)
      input, output, complaints, waiting = Open3.popen3(environment, *command)
      input.close
      reader = Thread.new { complaints.read }
      [output.read, reader.value, waiting.value]
    ensure
      if waiting&.alive?
        Process.kill("TERM", waiting.pid)
        waiting.value
      end
    end

    def command(way)
      [*Processes.ending_with_us("TERM"), Servers.paceline, "compare", "--json", "--quiet", "--path", PATH, "--rounds", [@setting.rounds, 5].max.to_s, "--time", @setting.seconds.to_s, "--requests", REQUESTS.fetch(@setting.quick).to_s,
       "-w", Servers::WORKERS.to_s, "-e", "production", "--ruby-a", "ruby", "--ruby-b", ruby, *way.flags, APP, APP, "--", *Servers::AS_ROOT]
    end

    def environment(way)
      { "PACELINE_GEM_DIR" => File.join(Servers::HERE, "gem"), "BENCH_SESSIONS" => way.sessions, "BENCH_DATABASES" => databases }
    end
  end
end
