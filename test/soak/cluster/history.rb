# frozen_string_literal: true

# What clients and faults have done, with times of one clock: a list of Hashes that is kept as a file, one line each. It judges nothing.
#
#   settings  ttl, members, stale (pages that may be shown stale while they are revalidated), and how the run was called
#   read      member, page; status, cache, body, or error
#   purge     member, how, soft, wait; versions: {page => the version from which it is good}; outcome: confirmed, unconfirmed, error
#   visit     the same of a visitor's POST
#   sent      member: it has no purge that is not in the journal
#   down      member: it was killed, until it answers again
#   fault     name; loses: whether purges may have been lost with it; late: which are owed only after it
#
# All but `settings` have `start` and `end` in seconds.
require "json"

class History
  def self.now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  def self.load(path) = File.readlines(path).map { |line| JSON.parse(line, symbolize_names: true) }

  attr_reader :all

  def initialize
    @all, @lock = [], Mutex.new
  end

  def add(kind, start: nil, **facts)
    record = { kind: kind, **(start ? { start: start, end: History.now } : {}), **facts }
    @lock.synchronize { @all << record }
    record
  end

  def save(path)
    lines = @lock.synchronize { @all.map { |record| "#{JSON.generate(record)}\n" } }
    File.write(path, lines.join)
    path
  end

  # As it would be read from a file.
  def records = @lock.synchronize { @all.map { |record| JSON.parse(JSON.generate(record), symbolize_names: true) } }
end
