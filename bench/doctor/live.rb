# frozen_string_literal: true

# What visitors notice of `paceline doctor`: the brewery under a steady open-loop load of `paceline bench`, quiet and during a whole run of the doctor (watching and
# trials), in turn. Each run lies between two quiet times, which are as long and get the same requests; how far these differ is what the machine does by itself.
# Never says what is too much; the report does.
require "json"
require "open3"
require_relative "../lib/apps"
require_relative "../lib/reaped_server"
require_relative "advice"
require_relative "gain"
require_relative "latencies"

module Bench
  # One part of a round. CPU: milliseconds of the front and the workers for each request.
  DoctorLoad = Struct.new(:latencies, :cpu, :failures, :elsewhere, keyword_init: true) do
    def p99 = latencies.percentile(99)
  end
  # A run of the doctor. WAITED: seconds for which it waited for a quiet machine; nil where it did not say. ADVICE: what it said then. FAILURE: why it has no result.
  DoctorLiveRound = Struct.new(:during, :seconds, :waited, :advice, :failure, keyword_init: true)

  # RATE: requests a second. QUIET: loads without the doctor: before, between and after its ROUNDS.
  DoctorLiveRow = Struct.new(:rate, :quiet, :rounds, :failure, keyword_init: true) do
    # [quiet before, round, quiet after] of each round that is between two.
    def framed = rounds.each_with_index.filter_map { |round, number| [quiet[number], round, quiet[number + 1]] if quiet[number + 1] }
    # Of each round: its 99th percentile as a multiple of what the quiet times beside it had in the mean.
    def ratios = framed.filter_map { |before, round, after| Arithmetic.ratio(round.during.p99, (before.p99 + after.p99) / 2) }
    # The same of quiet times beside each other: the larger of the two as a multiple of the other.
    def nulls = quiet.map(&:p99).each_cons(2).map { |pair| Arithmetic.ratio(*pair.minmax.reverse) }
    def ratio = Arithmetic.median(ratios)
    def during = rounds.map(&:during)
    # In milliseconds, of PART (quiet or during): the median of its loads.
    def percentile(part, percent) = Arithmetic.median(public_send(part).map { |load| load.latencies.percentile(percent) })
    def median(part, name) = Arithmetic.median(public_send(part).map(&name))
    def count(part) = public_send(part).sum { |load| load.latencies.count }
    # Wrong answers, in all.
    def failures = (quiet + during).map(&:failures).reduce({}) { |all, one| all.merge(one) { |_, a, b| a + b } }
  end

  class DoctorLive
    APPLICATION = "brewery"
    # Requests a second: a visitor now and then, and about half of what two processors carry.
    RATES = [10, 50].freeze
    ROUNDS = 5
    # Seconds without the doctor before its first run; afterwards as many as that run took. And those for which it watches.
    QUIET = 40
    WATCH = 10
    # A doctor that takes longer waits for a quieter machine than this one: it is ended, and the row says so.
    LIMIT = 150
    # The doctor replays each trial so often: its own number would make a round as long as the noise of the machine wants.
    TRIALS = 3
    # Lists, pages and the feed; the feed makes the slowest percent.
    PATHS = [*["/beers"] * 3, *["/breweries"] * 2, "/feed", *(1..4).map { |id| "/beers/#{id}" }].freeze
    WARM = 3

    class Failed < StandardError; end

    # The block is given what is being done, and whether it is done.
    def initialize(work, environment, rates: RATES, rounds: ROUNDS, quiet: QUIET, busy: false, &told)
      @work = work
      @environment = environment
      @rates = rates
      @rounds = rounds
      @quiet = quiet
      @busy = busy ? %w[--busy] : []
      @told = told
    end

    # Yields a DoctorLiveRow for each rate.
    def run
      app = Apps.prepare(:brewery)
      running = ReapedServer.new(server, App.new(name: app.name, directory: app.directory, environment: @environment), File.join(@work, "servers"), "/up").start
      load_for(running, @rates.max, WARM) { sleep WARM }
      @rates.each { |rate| yield row(running, app.directory, rate) }
    ensure
      running&.stop
    end

    # An access log of RATE requests in each of SECONDS, the same ones each time: `paceline bench --replay` spreads those of a second over it.
    def self.log(rate, seconds)
      random = Random.new(rate)
      Array.new(seconds) do |second|
        time = Time.at(second, in: "UTC").strftime("%d/%b/%Y:%H:%M:%S +0000")
        Array.new(rate) { "127.0.0.1 - - [#{time}] \"GET #{PATHS.sample(random: random)} HTTP/1.1\" 200 1 \"-\" \"-\"\n" }
      end.join
    end

    private

    def server
      Server.new(name: "brewery-live", threads: 5, worker: /\Apaceline worker/, workers: 2,
                 command: ->(port, _) { [Servers.paceline, "-b", "tcp://127.0.0.1:#{port}", "-w", 2, "-t", 5, "-q", *Servers::AS_ROOT] })
    end

    def row(running, folder, rate)
      found = DoctorLiveRow.new(rate: rate, quiet: [], rounds: [])
      found.quiet << quiet(running, rate, @quiet)
      @rounds.times do |number|
        found.rounds << round(running, folder, rate)
        found.quiet << quiet(running, rate, found.rounds.last.seconds.round)
        @told.call("#{rate}/s, round #{number + 1}", true)
      end
      found
    rescue Failed, DoctorSays::Failed => e
      found.failure = e.message
      found
    end

    def quiet(running, rate, seconds)
      @told.call("#{rate}/s, quiet", false)
      load_for(running, rate, seconds) { sleep seconds }
    end

    def round(running, folder, rate)
      found = DoctorLiveRound.new
      @told.call("#{rate}/s, with the doctor", false)
      found.during = load_for(running, rate, LIMIT + 10) { diagnose(folder, found) }
      found
    end

    # The load of RATE until the block is done, for SECONDS at most.
    def load_for(running, rate, seconds)
      log = File.join(@work, "visitors.log")
      File.write(log, self.class.log(rate, seconds + 5))
      before, busy, began = cpu(running), Processes.machine_busy, now
      child = generator(running, log)
      yield
      seconds = now - began
      used, busy = cpu(running) - before, Processes.machine_busy - busy
      text = finish(child)
      child = nil
      measured(text, used, [busy - used, 0].max / seconds)
    ensure
      finish(child) if child
    end

    def generator(running, log)
      reading, writing = IO.pipe
      pid = Process.spawn(*Processes.ending_with_us("KILL"), Servers.paceline, "bench", "-q", "--json", "-k", "--replay", log, "http://127.0.0.1:#{running.port}/", out: writing, err: File::NULL)
      writing.close
      [pid, reading, Thread.new { reading.read }]
    end

    # Interrupted, it tells what it has measured.
    def finish(child)
      pid, reading, reader = child
      Process.kill("INT", pid)
      reader.value
    ensure
      Process.wait(pid)
      reading.close
    end

    def measured(text, used, elsewhere)
      found = JSON.parse(text)
      wrong = found.fetch("statuses").reject { |status, _| status == "200" }.transform_keys { |status| "status #{status}" }
      DoctorLoad.new(latencies: DoctorLatencies.read(found), cpu: used * 1000 / found.fetch("answers"), failures: wrong.merge(found.fetch("failures")), elsewhere: elsewhere)
    rescue JSON::ParserError, ZeroDivisionError
      raise Failed, "paceline bench gave no result"
    end

    # Seconds of the front and the workers: shadows are of the preloader, and counted nowhere here.
    def cpu(running)
      all = running.processes
      [running.pid, *running.workers].sum { |pid| all[pid]&.ticks.to_i } / Processes::TICKS
    end

    def diagnose(folder, round)
      began = now
      said = DoctorSays.ask(folder, ["--watch", "#{WATCH}s", "--rounds", TRIALS.to_s, *@busy], @environment, limit: LIMIT)
      round.advice = said.advice.map(&:to_s)
      round.waited = said.waited
    rescue DoctorSays::Failed => e
      round.failure = e.message
    ensure
      round.seconds = now - began
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
