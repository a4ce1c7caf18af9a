# frozen_string_literal: true

# A sale begins while visitors ask for its pages: scheduled pages beside pages that expire in a cache at that second, round by round in turn. Prints nothing.
require "tmpdir"
require_relative "../lib/arithmetic"
require_relative "../lib/caches"
require_relative "../lib/kernel_counts"
require_relative "../lib/processes"
require_relative "../lib/round_contest"
require_relative "../lib/running_server"
require_relative "visitors"

module Bench
  # Options: pages, cost, rate, connections, rounds.
  class ScheduledContest < RoundContest
    APP = File.expand_path("app.ru", __dir__)
    # Seconds in which pages are asked for before and after the sale.
    BEFORE = 8
    AFTER = 5
    # The sale is so many seconds away when a server has started: all pages are asked for once.
    LEAD = 20

    def steps = @options[:rounds] * ways.size

    # Why others are not here.
    def absent = ways.key?(VARNISH) ? {} : { VARNISH => "not installed: there is no /usr/sbin/varnishd" }

    # {way => what was found in each round}, scheduled pages first.
    def run
      rows = ways.to_h { |name, _| [name, []] }
      @options[:rounds].times do |round|
        ways.each do |name, way|
          @told.call("round #{round + 1}: #{name}", false)
          rows[name] << measure(way)
          @told.call("round #{round + 1}: #{name}: p99 across the sale #{rows[name].last[:across][1].round(1)} ms", true)
        end
      end
      rows
    end

    VARNISH = "varnish + puma, expiry"

    private

    def ways
      all = { "paceline, scheduled" => method(:scheduled), "paceline, expiry" => method(:expiring) }
      all[VARNISH] = method(:varnish) if File.executable?("/usr/sbin/varnishd")
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
      running = RunningServer.new(server, Struct.new(:directory, :environment).new(@folder, @environment), @processes, work, "/sales/0").start
      yield running.port
    ensure
      running&.stop
    end

    def measure(way)
      Dir.mktmpdir("paceline-scheduled-") do |work|
        # Varnish reads its settings as another user.
        File.chmod(0o755, work)
        sale = Time.now.to_i + LEAD + 15
        @folder = File.join(work, "app")
        FileUtils.mkdir_p(@folder)
        FileUtils.cp(APP, File.join(@folder, "config.ru"))
        @environment = { "SALE" => sale.to_s, "COST" => @options[:cost].to_s, "XDG_STATE_HOME" => File.join(work, "state") }
        way.call(sale, work) { |port| visit(port, sale) }
      end
    end

    def visit(port, sale)
      Net::HTTP.start("127.0.0.1", port) do |http|
        @options[:pages].times { |page| http.get("/sales/#{page}", "Host" => "sale.test") }
      end
      left = sale - BEFORE - Time.now.to_f
      raise RunningServer::Failed, "this machine is too slow: the pages took until #{-left.round} s too late" if left.negative?

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
  end
end
