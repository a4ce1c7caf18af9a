# frozen_string_literal: true

# `bin/bench scheduled`: what visitors notice of a sale that begins, with 214 pages of 20 ms each. Scheduled pages beside pages that expire in the cache at the
# second, as with a plugin of WordPress: in Paceline's own cache, and in Varnish before Puma if that is installed.
#
#   bin/bench scheduled [--pages 214] [--cost 20] [--rate 400] [--connections 100] [--rounds 3]
require "fileutils"
require "optparse"
require "tmpdir"
require_relative "lib/arithmetic"
require_relative "lib/caches"
require_relative "lib/invocation"
require_relative "lib/processes"
require_relative "lib/reaper"
require_relative "lib/running_server"
require_relative "scheduled/visitors"

module Bench
  class ScheduledBench
    APP = File.expand_path("scheduled/app.ru", __dir__)
    # Seconds in which pages are asked for before and after the sale.
    BEFORE = 8
    AFTER = 5
    # The sale is so many seconds away when a server has started: all pages are asked for once.
    LEAD = 45

    def initialize(options)
      @options = options
      @processes = Processes.new
    end

    def run
      rows = ways.to_h { |name, _| [name, []] }
      @options[:rounds].times do |round|
        ways.each do |name, way|
          warn "round #{round + 1}: #{name}"
          rows[name] << measure(name, way)
        end
      end
      print_table(rows)
    end

    private

    def ways
      all = { "paceline, scheduled" => method(:scheduled), "paceline, expiry" => method(:expiring) }
      all["varnish + puma, expiry"] = method(:varnish) if File.executable?("/usr/sbin/varnishd")
      all
    end

    def scheduled(sale, work, &block)
      at = Time.at(sale).utc.strftime("%Y-%m-%d %H:%M:%S UTC")
      paceline("[[scheduled]]\npath = \"/sales/*\"\nat = \"#{at}\"\nprepare = \"40s\"\n", work, &block)
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
      sleep left
      visitors = ScheduledVisitors.new(port, pages: @options[:pages], connections: @options[:connections], rate: @options[:rate])
      judge(visitors.run(sale + AFTER), sale)
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

    def print_table(rows)
      puts "| #{@options[:pages]} pages of #{@options[:cost]} ms, #{@options[:rate]} requests/s | before: median, 99 % | across the sale: median, 99 %, max | failed | early | late |"
      puts "| --- | --- | --- | --- | --- | --- |"
      rows.each do |name, rounds|
        middle = ->(part, place) { format("%.1f", rounds.map { |round| round[part][place] }.sort[rounds.size / 2]) }
        sums = %i[failed early late].map { |key| rounds.sum { |round| round[key] } }
        puts "| #{name} | #{middle.(:quiet, 0)}, #{middle.(:quiet, 1)} ms | #{middle.(:across, 0)}, #{middle.(:across, 1)}, #{middle.(:across, 2)} ms | #{sums.join(" | ")} |"
      end
      puts "\nearly: the new page before the sale; late: the old one to a request that was sent 50 ms after it or later. Medians of #{@options[:rounds]} rounds."
    end
  end
end

options = { pages: 214, cost: 20, rate: 400, connections: 100, rounds: 3 }
OptionParser.new do |parser|
  parser.banner = "bin/bench scheduled [options]"
  options.each_key { |key| parser.on("--#{key} N", Integer) { |value| options[key] = value } }
end.parse!
Bench::Invocation.need_paceline("scheduled")
Bench::Invocation.interrupt_by_signals
Bench::Invocation.of_command { Bench::ScheduledBench.new(options).run }
