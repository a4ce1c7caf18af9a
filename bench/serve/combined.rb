# frozen_string_literal: true

# The results of several runs of `bin/bench serve` as one table: of each ratio the least and the most that a run found, so nothing is the best of
# several. A server that gave a wrong answer in one run has no figures.
require "json"
require_relative "../lib/invocation"
require_relative "../lib/scenarios"
require_relative "../lib/servers"
require_relative "../lib/table"

module Bench
  class Combined
    include Table

    class Unusable < StandardError; end

    # With fewer a table is no more than a hint, and says so.
    RUNS = 3
    Line = Struct.new(:title, :figure, :how)
    # Results from before there were others have none.
    OURS = "ours"

    # The work of the command `bin/bench NAME`: the results that OPTIONS name, put together, or else the block, which measures.
    def self.main(name, options, &measure)
      return puts(read(options.combine).markdown) if options.combine

      Invocation.of_command(&measure)
    rescue Unusable => e
      warn "bin/bench #{name}: #{e.message}"
      exit 65
    end

    # Of files that this benchmark wrote.
    def self.read(paths)
      raise Unusable, "--combine: name the results, as in bench/results/" if paths.empty?

      new(paths.to_h { |path| [File.basename(path), JSON.parse(File.read(path))] })
    rescue SystemCallError, JSON::ParserError => e
      raise Unusable, "--combine: #{e.message.lines.first.strip}"
    end

    # RUNS: {name => result}
    def initialize(runs)
      @runs = runs
      old = runs.find { |_, run| !run["paired"] }&.first
      raise Unusable, "#{old} is no result of servers that took turns: run `bin/bench serve` again" if old
    end

    def markdown
      [heading, warnings, table([rate, cpu]), table([p99, counted("system calls", "calls"), counted("context switches", "switches")]), generator, absent, sources].compact.join("\n\n") << "\n"
    end

    # [[least, most], reasons why there is none]: FIGURE of a server under a load in all runs that have it.
    def range(load, server, figure)
      rows = rows(load, server)
      reasons = rows.filter_map { |row| row["wrong"] }.uniq
      [rows.map { |row| row[figure] }.compact.minmax, reasons]
    end

    # [scenario, load, generator] of all, in the first run's order.
    def loads = groups.map { |group| key(group) }.uniq

    # Of those the ones of a scenario and a Shape's key.
    def loads_of(scenario, shape) = groups.select { |group| group["scenario"] == scenario && group["key"] == shape }.map { |group| key(group) }.uniq

    def generators = loads.map(&:last).uniq
    def runs = @runs.size

    # What a server's rows are under a LOAD, of all runs.
    def rows(load, server)
      groups.select { |group| key(group) == load }.flat_map { |group| group["servers"].select { |row| row["server"] == server } }
    end

    # "on", "off", or what of them there is.
    def access_log = @runs.values.map { |run| run["access_log"] || "off" }.uniq.join(" and ")

    # The Ruby, and what of its programs is compared.
    def stack
      @runs.values.map do |run|
        [run["machine"]["ruby"].to_s[/\Aruby [\d.]+(?:p\d+)?|\A.*/].capitalize + (run["machine"]["ruby"].to_s.include?("+YJIT") ? " with YJIT" : ""),
         *%w[puma rack rails redmine].filter_map { |name| [name.capitalize, version(run["versions"], name)].join(" ") if version(run["versions"], name) }].join(", ")
      end.uniq.join("; ")
    end

    # Those that have any figure.
    def servers
      rows = groups.flat_map { |group| group["servers"] }
      names = rows.reject { |row| row["wrong"] }.map { |row| row["server"] }.uniq
      names.sort_by { |name| [Servers::BASELINE, "paceline"].index(name) || names.size }
    end

    def sources
      "From #{@runs.map { |name, run| "#{name} (#{run["machine"]["date"]})" }.join(", ")}; " \
        "#{@runs.values.flat_map { |run| "#{run["machine"]["processors"]} x #{run["machine"]["processor"]}, Linux #{run["machine"]["kernel"]}" }.uniq.join("; ")}. " \
        "#{@runs.values.map { |run| run["versions"]["paceline"] }.uniq.join(", ")}.#{told_generators}"
    end

    private

    def groups = @groups ||= @runs.values.flat_map { |run| run["results"] }
    def key(group) = [group["scenario"], group["load"], group["generator"] || OURS]

    # Without Debian's revision.
    def version(versions, name) = (versions["gem #{name}"] || versions[name] || versions["ruby-#{name}"])&.then { |text| text[/(?:\d+:)?([\d.]+\d)/, 1] }

    # Why a server has no figure at all, in a few words.
    def absent
      rows = groups.flat_map { |group| group["servers"] }.reject { |row| servers.include?(row["server"]) }
      told = rows.map { |row| "#{row["server"]} (#{row["wrong"].to_s[0, 80]})" }.uniq { |text| text[/\S+/] }
      "Not measured: #{told.join(", ")}." if told.any?
    end

    def told_generators
      told = @runs.values.flat_map { |run| (run["generators"] || {}).map { |name, version| [name, version].compact.join(" ") } }.uniq
      " Generators: #{told.join(", ")}." if told.any?
    end

    def rate = Line.new("requests/s", "rate", :ratio)
    def cpu = Line.new("CPU µs a request", "cpu", :ratio)
    def p99 = Line.new("p99 ms", "p99", :ratio)
    def counted(title, figure) = Line.new("#{title} a request", figure, :absolute)

    # A line of LINES for each load: the baseline's own figures, and the others' ratios to it.
    def table(lines)
      rows = loads.flat_map { |load| lines.map { |line| ["#{title(load)}: #{line.title}", *servers.map { |server| cell(load, server, line) }] } }
      # What could not be counted there has no line.
      align(["", *servers], rows.reject { |_, *cells| cells.all?(&:empty?) }, texts: [0])
    end

    def title((scenario, load, generator))
      [Scenarios.all.find { |one| one.name == scenario }&.title || scenario, load, *(generator unless generators == [OURS])].join(", ")
    end

    def cell(load, server, line)
      ratio = line.how == :ratio && server != Servers::BASELINE
      (least, most), reasons = range(load, server, ratio ? "#{line.figure}_ratio" : line.figure)
      return "no figure: #{reasons.join("; ").gsub("|", "/")}" if reasons.any?
      return "" unless least

      both = [least, most].map { |number| ratio ? factor(number) : absolute(line, number) }.uniq.join("-")
      "#{both}#{"x" if ratio}#{"*" if line.figure == "rate" && limited?(load, server)}"
    end

    # Whether the load generator was the limit in one of the runs.
    def limited?(load, server) = rows(load, server).any? { |row| row["generator_busy"].to_f > BUSY }

    def generator
      return unless loads.product(servers).any? { |load, server| limited?(load, server) }

      "\\* The load generator was busy for more than #{(BUSY * 100).round} % of the time: the server could do more."
    end

    def absolute(line, number)
      return milliseconds(number) if line.figure == "p99"

      line.how == :ratio || number >= 100 ? rounded(number) : format("%.2f", number)
    end

    def heading
      "#{@runs.size} run#{"s" if @runs.size > 1} of `#{commands.join("`, `")}`. " \
        "#{Servers::BASELINE.capitalize}'s own figures; of the others the ratio to it (x): each run's median of its rounds' ratios, the least and the most of the runs."
    end

    def commands = @runs.values.map { |run| run["command"] }.uniq

    def warnings
      told = []
      told << "Fewer than #{RUNS} runs: no more than a hint." if @runs.size < RUNS
      told << "Runs of fewer than #{Servers::ROUNDS} rounds: a first impression." if @runs.values.any? { |run| run["rounds"] < Servers::ROUNDS }
      told << "Different commands." if commands.size > 1
      told << "Different machines." if differ { |run| run["machine"].values_at("processor", "processors", "kernel") }
      told << "Different versions." if differ { |run| run["versions"] }
      told.concat(busy)
      "**#{told.join(" ")}**" if told.any?
    end

    def differ(&block) = @runs.values.map(&block).uniq.size > 1

    def busy
      most = @runs.values.map { |run| Arithmetic.median(run["results"].flat_map { |group| group["servers"].map { |row| row["elsewhere"] } }) || 0 }.max
      most < QUIET ? [] : ["In one run other work took #{most.round(1)} processors (median): rely on no ratio of requests/s."]
    end
  end
end
