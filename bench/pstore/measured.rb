# frozen_string_literal: true

# The program in which a store is used: `ruby measured.rb WAY`. It works only when it is asked to, a line of JSON each time, so that
# several take turns, or start together. Knows nothing of the others.
require "json"
require_relative "ways"

module Bench
  class PStoreMeasured
    # Records that are named in advance, so that no time goes for it; then they come again.
    NAMES = 10_000
    # Seconds that a process reads in a store before anything is timed, at most: a large file is mapped page by page.
    WARM_UP = 0.75

    # The numbers of the records that are used one after the other.
    def self.numbers(records, seed)
      random = Random.new(seed)
      Array.new([NAMES, records * 20].min) { random.rand(records) }
    end

    def initialize(way)
      @way = way
      @stores = {}
    end

    def fill(records:, folder:, index:)
      store(records, folder, index).fill(records)
      {}
    end

    # So that all begin at the same time when they are told to `go`.
    def prepare(records:, folder:, index:, seed:)
      fresh = !@stores.key?(records)
      @store = store(records, folder, index)
      @names = self.class.numbers(records, seed).map { |number| PStoreSession.name(number) }
      warm_up if fresh
      GC.start
      {}
    end

    # So many transactions as fit into SECONDS, and what they took, in seconds.
    def go(what:, seconds:)
      count, names, store, updating = 0, @names, @store, what == "update"
      began, cpu = now, cpu_time
      limit = began + seconds
      loop do
        name = names[count % names.size]
        updating ? store.update(name) : store.read(name)
        count += 1
        break unless now < limit
      end
      { "count" => count, "wall" => now - began, "cpu" => cpu_time - cpu }
    end

    def counters(records:, folder:, index:, numbers:)
      store = store(records, folder, index)
      { "counters" => numbers.each_slice(10_000).flat_map { |some| store.counters(some.map { |number| PStoreSession.name(number) }) } }
    end

    private

    def warm_up
      limit = now + WARM_UP
      @names.first(NAMES).each { |name| @store.read(name) && now > limit && break }
    end

    def store(records, folder, index)
      @stores[records] ||= @way.make.call(folder).tap { |store| store.select(index) if store.respond_to?(:select) }
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    def cpu_time = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
  end

  def self.answer_store_questions(name)
    out = $stdout.dup
    $stdout.reopen($stderr)
    measured = PStoreMeasured.new(PStoreWays.named([name]).first)
    out.puts JSON.generate("ready" => true)
    out.flush
    $stdin.each_line do |line|
      question = JSON.parse(line, symbolize_names: true)
      answer = begin
        measured.public_send(question.delete(:ask), **question)
      rescue LoadError, StandardError => e
        { "failed" => "#{e.class}: #{e.message.lines.first&.strip}" }
      end
      out.puts JSON.generate(answer)
      out.flush
    end
  end
end

Bench.answer_store_questions(*ARGV) if $PROGRAM_NAME == __FILE__
