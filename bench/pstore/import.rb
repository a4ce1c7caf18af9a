# frozen_string_literal: true

# How long it takes until a file of Ruby's PStore is Paceline's: the first transaction that writes takes it over.
require "fileutils"
require "pstore"
require "tmpdir"
require_relative "../lib/arithmetic"
require_relative "stores"

module Bench
  class PStoreImport
    RECORDS = 10_000
    attr_reader :seconds, :bytes

    def initialize(options, place, &told)
      @options = options
      @place = place
      @told = told
    end

    def steps = @options.rounds
    def absent = {}

    def run
      $LOAD_PATH.unshift(PStoreStores::GEM)
      require "paceline/pstore"
      @seconds = Dir.mktmpdir("import", @place) do |folder|
        plain = File.join(folder, "plain")
        ::PStore.new(plain).transaction { |s| RECORDS.times { |i| s[PStoreSession.name(i)] = Marshal.load(PStoreSession.dumped(i)) } }
        @bytes = File.size(plain)
        Arithmetic.median(Array.new(@options.rounds) { |round| once(plain, File.join(folder, round.to_s)).tap { |s| @told.call("round #{round + 1}: #{s.round(2)} s", true) } })
      end
      self
    end

    private

    def once(plain, file)
      FileUtils.cp(plain, file)
      GC.start
      began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      store = Paceline::PStore.new(file)
      store.transaction { |s| s[PStoreSession.name(1)]["counter"] += 1 }
      seconds = Process.clock_gettime(Process::CLOCK_MONOTONIC) - began
      found = store.transaction(true) { |s| s.keys.size }
      raise "#{found} records instead of #{RECORDS}" unless found == RECORDS

      seconds
    end
  end
end
