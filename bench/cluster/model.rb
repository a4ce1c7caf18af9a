# frozen_string_literal: true

# What the Valkey of a cluster has to do, by arithmetic: how often fronts send each command, and what that costs by the measured cost of each. No I/O, so that
# bench/test can hold it to known answers.
module Bench
  class ClusterModel
    # As crates/paceline/src/cluster has them, in seconds: a beat is sent not sooner after the last (following.rs); looks at who has confirmed begin so far apart,
    # double, and end after this for a purge that nobody waits for; without purges they are `partition_ttl` apart, within these bounds (publishing.rs,
    # control/purging.rs).
    SPACE, LONGEST_BEAT, FIRST_LOOK, LONGEST_LOOK, MOMENT = 0.010, 1.0, 0.002, 0.100, 0.050
    ROLL_CALL = [1.0, 5.0].freeze
    BATCH, READ = 64, 256

    # FRONTS; PURGES a second, of all; ROUND_TRIP in seconds; TTL: `partition_ttl`. Of pages: KEYS, BYTES of each, LIFETIME in seconds, READERS: other fronts that ask
    # for one while it lives; pages that one purge DROPS.
    Plan = Struct.new(:fronts, :purges, :round_trip, :ttl, :keys, :bytes, :lifetime, :readers, :drops, keyword_init: true)
    # A kind of command: how many a second, microseconds of Valkey's thread for one, bytes that come and go for one.
    Load = Struct.new(:name, :rate, :cost, :received, :sent) do
      def share = rate * cost / 1e6
    end

    # COSTS: {name => {"us", "in", "out"}} of publish, entry (each more in one publish), read, read_entry (each more in one read), beat, members (at "fronts"),
    # member (each more), lead, hit, hit_byte, write, write_byte; "page_bytes" beside the page itself.
    def initialize(plan, costs)
      @plan, @costs = plan, costs
    end

    def loads = @loads ||= [publish, reads, beats, looks, *pages]

    def commands = loads.sum(&:rate)
    # Of Valkey's one thread; more than 1 is more than it has.
    def share = loads.sum(&:share)
    def received = loads.sum { |load| load.rate * load.received }
    def sent = loads.sum { |load| load.rate * load.sent }

    # Bytes of all pages, with what Valkey keeps beside each.
    def memory = @plan.keys * (@plan.bytes + @costs["page_bytes"])

    # How long after a purge all others have confirmed it, if purges come evenly: it is read, and a beat says so as soon as one may be sent.
    def confirmed_after
      purges = @plan.purges.positive? ? 1.0 / @plan.purges : SPACE
      [SPACE - purges, 0].max + (3 * @plan.round_trip)
    end

    # The largest value of a figure of the plan with which the thread is not fuller than that. The figure's cost must rise with it.
    def self.limit(plan, costs, figure, share)
      fits = ->(value) { new(plan.dup.tap { |one| one[figure] = value }, costs).share <= share }
      low, high = 0.0, 1.0
      return low unless fits[low]
      high *= 2 while fits[high] && high < 1e9
      60.times { fits[(low + high) / 2] ? low = (low + high) / 2 : high = (low + high) / 2 }
      low
    end

    # The shortest round trip with which the thread is not fuller than that: with longer ones fronts find more at once. nil: it is longer than `most` seconds, or
    # fronts would find more than they read at once, and fall behind.
    def self.settles(plan, costs, share, most)
      fits = ->(time) { new(plan.dup.tap { |one| one.round_trip = time }, costs).share <= share }
      return plan.round_trip if fits[plan.round_trip]
      most = [most, READ / plan.purges].min
      return unless most > plan.round_trip && fits[most]
      low, high = plan.round_trip, most
      40.times { fits[(low + high) / 2] ? high = (low + high) / 2 : low = (low + high) / 2 }
      high
    end

    private

    # A front that waits for an answer sends what has come meanwhile at once.
    def publish
      scripts, entries = grouped(@plan.purges / at_least_one, BATCH)
      load("purges", scripts * @plan.fronts, "publish", entries - 1 => "entry")
    end

    def reads
      rate, entries = grouped(@plan.purges, READ)
      load("reading them", rate * @plan.fronts, "read", entries - 1 => "read_entry")
    end

    # After each purge, but not sooner than that; and from time to time.
    def beats
      least = SPACE + @plan.round_trip
      load("beats", @plan.fronts * @plan.purges.clamp(1 / (least + [@plan.ttl / 5.0, LONGEST_BEAT].min), 1 / least), "beat")
    end

    # One at once, then after pauses that double, until all have confirmed the purge or nobody waits any more.
    def looks
      waits = [confirmed_after, MOMENT].min
      each = looks_in(waits)
      most = 1 / (FIRST_LOOK + @plan.round_trip)
      rate = (@plan.purges / at_least_one * each).clamp(1 / @plan.ttl.clamp(*ROLL_CALL), most) * @plan.fronts
      load("who has confirmed", rate, "members", @plan.fronts - @costs["members"]["fronts"] => "member")
    end

    def looks_in(time)
      count, at, pause = 1, 0, FIRST_LOOK
      while at < time
        at += pause + @plan.round_trip
        pause = [pause * 2, LONGEST_LOOK].min
        count += 1
      end
      count
    end

    def pages
      return [] if @plan.keys.zero?
      rendered = (@plan.keys / @plan.lifetime.to_f) + (@plan.purges * @plan.drops)
      [load("pages that are missed", rendered, "lead"), load("pages that are stored", rendered, "write", @plan.bytes => "write_byte"),
       load("pages of others", rendered * @plan.readers, "hit", @plan.bytes => "hit_byte")]
    end

    def at_least_one = [@plan.fronts, 1].max.to_f

    # How often a second a front does what takes a round trip, if so many things come a second, and how many it finds.
    def grouped(rate, most)
      return [0.0, 1] if rate.zero?
      found = (1 + (rate * @plan.round_trip)).clamp(1, most)
      [rate / found, found]
    end

    # MORE: {how many => of what, beside the command itself}.
    def load(name, rate, kind, more = {})
      figures = %w[us in out].map { |figure| @costs[kind][figure] + more.sum { |count, extra| count * @costs[extra][figure] } }
      Load.new(name, rate, *figures.map { |figure| [figure, 0].max })
    end
  end
end
