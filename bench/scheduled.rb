# frozen_string_literal: true

# `bin/bench scheduled`: what visitors notice of a sale that begins, with 214 pages of 20 ms each. Scheduled pages beside pages that expire in the cache at the
# second, as with a plugin of WordPress: in Paceline's own cache, and in Varnish before Puma if that is installed.
#
#   bin/bench scheduled [--pages 214] [--cost 20] [--rate 400] [--connections 100] [--rounds 5] [--output DIR]
require "fileutils"
require "json"
require "optparse"
require "tmpdir"
require_relative "lib/arithmetic"
require_relative "lib/caches"
require_relative "lib/invocation"
require_relative "lib/kernel_counts"
require_relative "lib/machine"
require_relative "lib/processes"
require_relative "lib/reaper"
require_relative "lib/running_server"
require_relative "lib/table"
require_relative "scheduled/visitors"

module Bench
  class ScheduledBench
    include Table

    HEAD = ["server", "before: p50 ms", "p99", "across: p50 ms", "p99", "max", "x of scheduled", "CPU µs", "switches", "failed", "early", "late"].freeze
    APP = File.expand_path("scheduled/app.ru", __dir__)
    # Seconds in which pages are asked for before and after the sale.
    BEFORE = 8
    AFTER = 5
    # The sale is so many seconds away when a server has started: all pages are asked for once.
    LEAD = 20

    def initialize(options)
      @options = options
      @processes = Processes.new
    end

    def run
      facts = Machine.facts
      rows = ways.to_h { |name, _| [name, []] }
      @options[:rounds].times do |round|
        ways.each do |name, way|
          warn "round #{round + 1}: #{name}"
          rows[name] << measure(name, way)
        end
      end
      conclude(facts, rows)
    end

    private

    def ways
      all = { "paceline, scheduled" => method(:scheduled), "paceline, expiry" => method(:expiring) }
      all["varnish + puma, expiry"] = method(:varnish) if File.executable?("/usr/sbin/varnishd")
      all
    end

    def scheduled(sale, work, &block)
      at = Time.at(sale).utc.strftime("%Y-%m-%d %H:%M:%S UTC")
      paceline("[[scheduled]]\npath = \"/sales/*\"\nat = \"#{at}\"\nprepare = \"25s\"\n", work, &block)
    end

    def expiring(_, work, &block) = paceline("", work, &block)

    def paceline(settings, work, &block)
      serve(Caches.paceline_with_app("paceline", settings, ""), work, &block)
    end

    def varnish(_, work)
      puma = Servers.named(["puma"])[0]
      serve(puma, work) do |origin|
        serve(Caches.varnish_before("scheduled.vcl", origin), work) { |port| yield port }
      end
    end

    def serve(server, work)
      running = RunningServer.new(server, Struct.new(:directory, :environment).new(@folder, {}), @processes, work, "/sales/0").start
      yield running.port
    ensure
      running&.stop
    end

    def measure(_, way)
      Dir.mktmpdir("paceline-scheduled-") do |work|
        # Varnish reads its settings as another user.
        File.chmod(0o755, work)
        sale = Time.now.to_i + LEAD + 15
        @folder = File.join(work, "app")
        FileUtils.mkdir_p(@folder)
        FileUtils.cp(APP, File.join(@folder, "config.ru"))
        ENV.update("SALE" => sale.to_s, "COST" => @options[:cost].to_s, "XDG_STATE_HOME" => File.join(work, "state"))
        way.call(sale, work) { |port| visit(port, sale) }
      end
    end

    def visit(port, sale)
      Net::HTTP.start("127.0.0.1", port) do |http|
        @options[:pages].times { |page| http.get("/sales/#{page}", "Host" => "sale.test") }
      end
      left = sale - BEFORE - Time.now.to_f
      abort "bin/bench scheduled: this machine is too slow: the pages took until #{-left.round} s too late" if left.negative?
      before = look
      sleep left
      answers = ScheduledVisitors.new(port, pages: @options[:pages], connections: @options[:connections], rate: @options[:rate]).run(sale + AFTER)
      judge(answers, sale).merge(costs(before, look, answers.size))
    end

    # The server's processes, and the context switches of their threads.
    def look
      tree = @processes.tree
      [tree, KernelCounts.switches(tree.keys)]
    end

    def costs(before, after, requests)
      { cpu: Processes.cpu_seconds(before[0], after[0]) * 1_000_000 / requests, switches: KernelCounts.difference(before[1], after[1]).fdiv(requests) }
    end

    def judge(answers, sale)
      across = answers.select { |answer| answer.sent.between?(sale - 0.5, sale + AFTER) }
      quiet = answers.select { |answer| answer.sent < sale - 0.5 }
      { quiet: percentiles(quiet), across: percentiles(across), failed: answers.count { |answer| answer.said == "failed" },
        early: answers.count { |answer| answer.said == "after" && answer.sent + answer.took < sale },
        late: answers.count { |answer| answer.said == "before" && answer.sent > sale + 0.05 } }
    end

    def percentiles(answers)
      times = answers.map { |answer| answer.took * 1000 }.sort
      return [0, 0, 0] if times.empty?

      [times[times.size / 2], times[(times.size * 0.99).floor.clamp(0, times.size - 1)], times.last]
    end

    # P99 across the sale as a multiple of that with scheduled pages, of each round.
    def ratios(rows, name)
      rows[name].zip(rows.values.first).map { |round, scheduled| round[:across][1] / scheduled[:across][1] }
    end

    def cells(rows, name)
      median = ->(&value) { Arithmetic.median(rows[name].map(&value)) }
      times = [[:quiet, 0], [:quiet, 1], [:across, 0], [:across, 1], [:across, 2]].map { |part, place| format("%.1f", median.call { |round| round[part][place] }) }
      multiple = ratios(rows, name)
      [name, *times, spread(Arithmetic.median(multiple), multiple.minmax), format("%.0f", median.call { |round| round[:cpu] }), format("%.2f", median.call { |round| round[:switches] }),
       *%i[failed early late].map { |key| rows[name].sum { |round| round[key] }.to_s }]
    end

    def page(facts, rows)
      <<~PAGE
        # #{@options[:command]}

        #{facts["date"]} · #{facts["processors"]} x #{facts["processor"]} · load before: #{facts["load_before"].join(" ")}

        A sale begins: #{@options[:pages]} pages change, each takes #{@options[:cost]} ms of a processor to render. #{@options[:rate]} requests a second at fixed times (open loop) on #{@options[:connections]}
        connections, #{BEFORE} s before and #{AFTER} s after. Expiry: the pages expire in the cache at that second. Before: until half a second before the sale. Across: from then on.
        X of scheduled: the p99 across, of each round; the median, the least and the most. CPU and context switches: of all processes of the server, for a request, from the
        time on at which all pages are in the cache: what is rendered ahead is in it. Failed: no answer of 200. Early: the new page before the sale. Late: the old one to a request that was sent 50 ms after it or later. Medians of #{@options[:rounds]} rounds; sums of the last three.

        #{align(HEAD, rows.keys.map { |name| cells(rows, name) }, texts: [0])}

        Versions: #{versions.map { |name, version| "#{name} #{version}" }.join(", ")}. #{facts["ruby"]}, Linux #{facts["kernel"]}.
      PAGE
    end

    def versions = Machine.versions(%w[puma varnish])

    def conclude(facts, rows)
      text = page(facts, rows)
      puts text
      base = File.join(@options[:output], "scheduled-#{Time.now.utc.strftime("%Y%m%d-%H%M%S")}")
      FileUtils.mkdir_p(@options[:output])
      File.write("#{base}.md", text)
      File.write("#{base}.json", "#{JSON.pretty_generate("command" => @options[:command], "machine" => facts, "versions" => versions, "results" => rows)}\n")
      puts "\nWritten to #{base}.md and .json"
    end
  end
end

options = { pages: 214, cost: 20, rate: 400, connections: 100, rounds: 5 }
command = ["bin/bench scheduled", *ARGV].join(" ")
output = File.join(Bench::Servers::HERE, "bench/results")
OptionParser.new do |parser|
  parser.banner = "bin/bench scheduled [options]"
  options.each_key { |key| parser.on("--#{key} N", Integer) { |value| options[key] = value } }
  parser.on("--output DIR") { |directory| output = directory }
end.parse!
options.update(command: command, output: output)
Bench::Invocation.need_paceline("scheduled")
Bench::Invocation.interrupt_by_signals
Bench::Invocation.of_command { Bench::ScheduledBench.new(options).run }
