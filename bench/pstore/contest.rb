# frozen_string_literal: true

# Several stores, each with its records in several numbers, used by one process and by several: round by round all take turns. What each update
# did is added up, and looked for at the end.
require "tmpdir"
require_relative "../lib/arithmetic"
require_relative "measured"
require_relative "process"
require_relative "ways"

module Bench
  class PStoreContest
    # US and CPU: microseconds of a transaction by one process, medians of the rounds; BY_ROUND: what US comes from. TOGETHER: transactions a second of all
    # processes at once.
    Row = Struct.new(:way, :records, :what, :us, :cpu, :together, :by_round, keyword_init: true)
    # UPDATES that were made in a store, and how many of them nothing is to be seen of.
    Loss = Struct.new(:way, :records, :updates, :lost, keyword_init: true)
    WHATS = %w[read update].freeze

    attr_reader :rows, :losses, :bytes, :absent, :fsync

    # The block is told of each step and whether something was measured. PLACE: where the stores are made, and removed.
    def initialize(ways, options, place, &told)
      @ways = ways
      @options = options
      @place = place
      @told = told
      @absent = {}
      @bytes = {}
    end

    def steps = @options.rounds * @options.records.sum { |records| @ways.count { |way| measured?(way, records) } }

    def run
      @folder = Dir.mktmpdir("pstore", @place)
      @fsync = self.class.fsync_seconds(@folder)
      start
      fill
      found = Hash.new { |all, key| all[key] = { alone: [], together: [] } }
      @expected = Hash.new { |all, key| all[key] = Hash.new(0) }
      @options.rounds.times { |round| measure_all(round, found) }
      @rows = found.map { |(way, records, what), rounds| self.class.row(way, records, what, rounds) }
      @losses = count_losses
      weigh
      self
    ensure
      close
    end

    # ALONE: {"count", "wall", "cpu"} of one process for each round; TOGETHER: a list of these for each round.
    def self.row(way, records, what, rounds)
      us = ->(name) { rounds[:alone].map { |one| one[name] * 1e6 / one["count"] } }
      together = rounds[:together].map { |all| all.sum { |one| one["count"] / one["wall"] } }
      Row.new(way: way, records: records, what: what, us: Arithmetic.median(us["wall"]), cpu: Arithmetic.median(us["cpu"]), together: Arithmetic.median(together), by_round: us["wall"])
    end

    # How often each number comes in the first COUNT of the endless row that a process takes.
    def self.tally(numbers, count)
      rounds, rest = count.divmod(numbers.size)
      sums = numbers.tally.transform_values { |times| times * rounds }
      numbers.first(rest).each { |number| sums[number] += 1 }
      sums.reject { |_, times| times.zero? }
    end

    # EXPECTED: {number => updates}; COUNTERS in the same order.
    def self.loss(way, records, expected, counters)
      Loss.new(way: way, records: records, updates: expected.values.sum, lost: expected.values.sum - counters.sum)
    end

    # Median seconds of writing a block and waiting for the disk.
    def self.fsync_seconds(folder, times = 50)
      File.open(File.join(folder, "fsync"), "wb") do |file|
        file.write("x" * 4096)
        file.fsync
        Arithmetic.median(Array.new(times) do
          file.pwrite("y" * 4096, 0)
          began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
          file.fdatasync
          Process.clock_gettime(Process::CLOCK_MONOTONIC) - began
        end)
      end
    end

    private

    def measured?(way, records) = way.most.nil? || records <= way.most
    def folder(way, records) = File.join(@folder, way.folder || way.name, records.to_s)
    def place(way, records) = { records: records, folder: folder(way, records), index: @options.records.index(records) }

    def running
      @ways.select { |way| @processes.key?(way.name) }
    end

    # Who fails is out from here on.
    def trying(way)
      yield
    rescue PStoreProcess::Failed => e
      @absent[way.name] = e.message
      @processes.delete(way.name)&.each(&:close)
      nil
    end

    def start
      @processes = {}
      @redis = {}
      @ways.each do |way|
        @told.call("#{way.name} starts", false)
        trying(way) do
          @redis[way.name] = RedisProcess.new(File.join(@folder, way.folder), way.server) if way.server
          environment = way.server ? { "BENCH_REDIS" => @redis[way.name].socket } : {}
          @processes[way.name] = Array.new(way.alone ? 1 : @options.processes) { PStoreProcess.new(way.name, environment) }
        end
      end
    end

    def fill
      filled = {}
      running.product(@options.records).each do |way, records|
        next if !measured?(way, records) || filled[folder(way, records)] || !@processes.key?(way.name)

        @told.call("#{way.name} gets #{records} records", false)
        FileUtils.mkdir_p(folder(way, records))
        filled[folder(way, records)] = true
        trying(way) { @processes[way.name].first.ask(:fill, **place(way, records)) }
      end
      # Nobody's first measurement is to pay for what was written here.
      system("sync")
    end

    def measure_all(round, found)
      @options.records.product(@ways).each do |records, way|
        next unless measured?(way, records)

        figures = @processes.key?(way.name) && trying(way) do
          alone, together = use([@processes[way.name].first], way, records).map(&:first), several?(way) ? use(@processes[way.name], way, records) : []
          WHATS.zip(alone, together)
        end
        (figures || []).each do |what, alone, together|
          found[[way.name, records, what]][:alone] << alone
          found[[way.name, records, what]][:together] << together if together
        end
        @told.call("round #{round + 1}, #{way.name}, #{records} records", true)
      end
    end

    def several?(way) = !way.alone && @options.processes > 1

    # What each of these did, reading and updating. A process has its own records, the same each time.
    def use(processes, way, records)
      processes.each_with_index { |process, seed| process.tell(:prepare, seed: seed, **place(way, records)) }
      processes.each(&:answer)
      WHATS.map { |what| go(processes, way, records, what) }
    end

    def go(processes, way, records, what)
      server = @redis[way.name]
      cpu = server&.cpu
      processes.each { |process| process.tell(:go, what: what, seconds: @options.seconds) }
      answers = processes.map(&:answer)
      answers.first["cpu"] += server.cpu - cpu if server && processes.size == 1
      expect(way, records, answers) if what == "update" && way.folder
      answers
    end

    def expect(way, records, answers)
      expected = @expected[[way.folder, records]]
      answers.each_with_index do |answer, seed|
        self.class.tally(PStoreMeasured.numbers(records, seed), answer["count"]).each { |number, times| expected[number] += times }
      end
    end

    # Who shares a store is named by the first of them.
    def count_losses
      @expected.filter_map do |(folder, records), expected|
        way = running.find { |one| one.folder == folder } or next
        @told.call("#{way.name} is counted", false)
        trying(way) { self.class.loss(way.name, records, expected, @processes[way.name].first.ask(:counters, numbers: expected.keys, **place(way, records))["counters"]) }
      end
    end

    # Bytes of all files of a store; of Redis those in memory.
    def weigh
      running.uniq(&:folder).each do |way|
        next unless way.folder

        if way.server
          @bytes[way.name] = { nil => @redis[way.name].resident }
        else
          @bytes[way.name] = @options.records.select { |records| measured?(way, records) }.to_h do |records|
            [records, Dir.glob("#{folder(way, records)}/*").sum { |file| File.stat(file).blocks * 512 }]
          end
        end
      end
    end

    def close
      (@processes || {}).each_value { |all| all.each(&:close) }
      (@redis || {}).each_value(&:close)
      FileUtils.rm_rf(@folder) if @folder
    end
  end
end
