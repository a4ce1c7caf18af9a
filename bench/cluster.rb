# frozen_string_literal: true

# `bin/bench cluster --simulate`: what the Valkey of a large cluster has to do, where that breaks, and what helps. The costs of the commands are measured
# (`--measure`: real fronts, a real Valkey, some seconds for each kind of command); how often fronts send them is arithmetic (cluster/model.rb).
#
#   bin/bench cluster --simulate [--measure] [--seconds 2] [--fronts 200] [--purges 100000] [--keys 10000000] [--bytes 20000] [--lifetime 3600] [--readers 2]
#                    [--round-trip 500] [--output DIR]
#
# Purges are those of a minute, the lifetime is in seconds, the round trip in microseconds. Without --measure it takes the costs of the newest result.
#
# `bin/bench cluster --rolling`: rolling restarts under load (cluster/rolling.rb).
require_relative "lib/contest_command"
require_relative "cluster/costs"
require_relative "cluster/model"
require_relative "cluster/rolling"

module Bench
  class ClusterBench < ContestCommand
    NUMBERS = { seconds: 2, fronts: 200, purges: 100_000, keys: 10_000_000, bytes: 20_000, lifetime: 3600, readers: 2, round_trip: 500 }.freeze
    # As much of the thread as one plans for; and with which it can still keep up.
    FULL, OVERFULL = 0.7, 0.95
    SITES = [1, 2, 4, 8, 16].freeze
    # Fronts take an answer that needs longer for none (link.rs), in seconds; a round trip on one machine.
    ANSWER_TIME, NEAR = 1.0, 0.0002
    # What MONITOR calls them.
    KINDS = { "purges" => "publish", "reading them" => "read", "beats" => "beat", "who has confirmed" => "members" }.freeze

    def self.main
      options = { **NUMBERS, command: ["bin/bench cluster", *ARGV].join(" "), output: File.join(Servers::HERE, "bench/results") }
      OptionParser.new do |parser|
        parser.banner = "bin/bench cluster --simulate [options], or --rolling [options]"
        parser.on("--simulate", "what a large cluster asks of its Valkey") { options[:simulate] = true }
        parser.on("--measure", "measure what each command costs, on this machine") { options[:measure] = true }
        NUMBERS.each_key { |key| parser.on("--#{key.to_s.tr("_", "-")} N", Integer) { |value| options[key] = value } }
        parser.on("--output DIR") { |directory| options[:output] = directory }
      end.parse!
      abort "bin/bench cluster: say --simulate or --rolling; see the first lines of bench/cluster.rb" unless options[:simulate]
      abort "bin/bench cluster: there is no valkey-server and no redis-server" if options[:measure] && !Valkey.program
      Invocation.need_paceline("cluster") if options[:measure]
      Invocation.interrupt_by_signals
      Invocation.of_command { new("cluster", options).run }
    end

    private

    def measure
      measured = @options[:measure] ? ClusterCosts.new(@options) { |what| warn what }.run : newest
      costs = measured["costs"]
      model = ClusterModel.new(plan, costs)
      {
        "measured" => measured, "plan" => plan.to_h.transform_keys(&:to_s),
        "loads" => model.loads.map { |load| { **load.to_h.transform_keys(&:to_s), "share" => load.share } },
        "total" => %w[commands share received sent memory].to_h { |figure| [figure, model.method(figure).call] },
        "grid" => grid(costs), "limits" => limits(costs), "sites" => SITES.map { |sites| by_site(sites, costs) },
      }
    end

    def figures(found) = found

    def newest
      paths = Dir[File.join(@options[:output], "cluster-*.json"), File.join(Servers::HERE, "bench/results/cluster-*.json")].uniq
      path = paths.max_by { |one| File.basename(one) } or abort "bin/bench cluster: nothing is measured yet: add --measure"
      JSON.parse(File.read(path)).fetch("measured").merge("taken_from" => File.basename(path))
    end

    # MORE: what is otherwise.
    def plan(**more)
      ClusterModel::Plan.new(fronts: @options[:fronts], purges: @options[:purges] / 60.0, round_trip: @options[:round_trip] / 1e6, ttl: 5.0, keys: @options[:keys],
                             bytes: @options[:bytes], lifetime: @options[:lifetime], readers: @options[:readers], drops: 1, **more)
    end

    # The thread's share by fronts and purges, without pages.
    def grid(costs)
      [3, 10, 50, 100, 200].to_h do |fronts|
        [fronts.to_s, [100, 1000, 10_000, 100_000].to_h { |purges| [purges.to_s, ClusterModel.new(plan(fronts: fronts, purges: purges / 60.0, keys: 0), costs).share] }]
      end
    end

    def limits(costs)
      { "purges_a_minute" => 60 * ClusterModel.limit(plan(keys: 0), costs, :purges, FULL), "fronts" => ClusterModel.limit(plan(keys: 0), costs, :fronts, FULL).floor,
        "settles_at" => ClusterModel.settles(plan(keys: 0), costs, OVERFULL, ANSWER_TIME),
        "pages" => ClusterModel.limit(plan(purges: 0.0), costs, :keys, FULL).floor }
    end

    # Sites of the same size, each with a Valkey: on all fronts, or on its own part of them.
    def by_site(sites, costs)
      each = { purges: plan.purges / sites, keys: plan.keys / sites }
      own = ClusterModel.new(plan(**each, fronts: [plan.fronts / sites, 1].max), costs)
      everywhere = ClusterModel.new(plan(**each), costs)
      { "sites" => sites, "everywhere" => everywhere.share, "own" => own.share, "own_sent" => own.sent, "memory" => own.memory }
    end

    # {command => how many real fronts sent a second, and how many by arithmetic}
    def checked(sent, costs)
      model = ClusterModel.new(plan(fronts: sent["fronts"], purges: sent["purges"], round_trip: NEAR, keys: 0), costs)
      model.loads.to_h { |load| [load.name, [sent["rates"].fetch(KINDS.fetch(load.name), 0), load.rate]] }
    end

    def percent(share) = share >= 0.1 ? "#{rounded((share * 100).round)} %" : format("%.1f %%", share * 100)
    def mega(bytes) = "#{rounded(bytes / 1e6)} MB"

    def page(facts, found)
      total = found["total"]
      <<~PAGE
        # #{@options[:command]}

        #{facts["date"]} · #{facts["processors"]} x #{facts["processor"]} · load before: #{facts["load_before"].join(" ")}

        #{rounded(plan.fronts)} fronts, #{rounded(@options[:purges])} purges a minute, a round trip of #{plan.round_trip * 1000} ms, `partition_ttl` of #{plan.ttl.to_i} s. #{rounded(plan.keys)} shared pages of #{rounded(plan.bytes)} bytes that live for
        #{rounded(plan.lifetime)} s, each asked for by #{plan.readers} other fronts; a purge drops one. Costs are those of #{found["measured"]["server"]}'s one thread for commands as real fronts send them#{", from #{found["measured"]["taken_from"]}" if found["measured"]["taken_from"]};
        how often they come is arithmetic (bench/cluster/model.rb).

        #{align(["command", "a second", "µs each", "of the thread", "in, MB/s", "out, MB/s"], rows(found), texts: [0])}

        Memory: #{rounded(total["memory"] / 1e9)} GB. All kinds together took #{check(found["measured"]["mix"])}. #{sent(found["measured"])}

        ## Where it breaks

        Share of Valkey's thread without shared pages, by fronts and purges a minute:

        #{align(["fronts", *found["grid"].values.first.keys.map { |purges| rounded(purges.to_i) }], found["grid"].map { |fronts, shares| [fronts, *shares.values.map { |share| percent(share) }] }, texts: [])}

        #{percent(FULL)} of the thread: #{rounded(plan.fronts)} fronts with #{rounded(found["limits"]["purges_a_minute"].round(-2))} purges a minute, or #{rounded(found["limits"]["fronts"])} fronts with #{rounded(@options[:purges])}, both without shared pages;
        or #{rounded(found["limits"]["pages"].round(-5))} pages without purges. #{settles(found["limits"]["settles_at"])}

        ## A cluster for each site

        Sites of the same size, each with a Valkey of its own, on all fronts or on its own part of them. Share of the thread of each; what each sends; memory of each:

        #{align(["sites", "on all fronts", "on fronts of its own", "out, MB/s", "memory, GB"], found["sites"].map { |row| [row["sites"].to_s, percent(row["everywhere"]), percent(row["own"]), rounded(row["own_sent"] / 1e6), rounded(row["memory"] / 1e9)] }, texts: [])}

        #{facts["ruby"]}, Linux #{facts["kernel"]}.
      PAGE
    end

    def rows(found)
      total = found["total"]
      found["loads"].map { |load| [load["name"], rounded(load["rate"].round), rounded(load["cost"]), percent(load["share"]), *%w[received sent].map { |way| rounded(load["rate"] * load[way] / 1e6) }] } +
        [["all", rounded(total["commands"].round), "", percent(total["share"]), *%w[received sent].map { |way| rounded(total[way] / 1e6) }]]
    end

    def sent(measured)
      rates = checked(measured["sent"], measured["costs"]).map { |name, (real, sum)| "#{name} #{rounded(real)} (#{rounded(sum)})" }
      "#{measured["sent"]["fronts"]} real fronts with #{rounded(measured["sent"]["purges"])} purges a second sent so many commands a second (by arithmetic): #{rates.join(", ")}."
    end

    def settles(time)
      return "With #{rounded(plan.fronts)} fronts and #{rounded(@options[:purges])} purges a minute fronts can't keep up: purges wait longer and longer." unless time
      "A thread that is fuller answers later, and fronts find more at once: #{rounded(plan.fronts)} fronts with #{rounded(@options[:purges])} settle at round trips of #{rounded(time * 1000)} ms."
    end

    def check(mix) = "#{rounded(mix["us"])} µs each, #{rounded(mix["expected_us"])} by the single costs"
  end
end

(ARGV.include?("--rolling") ? Bench::RollingBench.start : Bench::ClusterBench.main) if $PROGRAM_NAME == __FILE__
