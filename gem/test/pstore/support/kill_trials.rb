# frozen_string_literal: true

require "paceline/pstore"
require_relative "faults"

# Two writers of one store, killed again and again: every other time at any moment, else within a commit (or opening), at a call that they make
# of the system. What one of them told of must be there, and nothing may be half there.
class KillTrials
  CALLS = Faults::CALLS.keys
  ACTS = %i[kill_before kill_after kill_within].freeze

  # `orders`: those of the faults under which this process runs, or nil.
  def initialize(file, format, ultra_safe, seed, orders)
    @file = file
    @format = format
    @ultra_safe = ultra_safe
    @seed = seed
    @random = Random.new(seed)
    @orders = orders
    @known = 0
    @killed = Hash.new(0)
  end

  # How many died where. Raises RuntimeError as soon as something is wrong.
  def run(count)
    count.times { |number| trial(number) }
    @killed
  end

  private

  def trial(number)
    within = @orders && number.odd?
    act, at = ACTS.sample(random: @random), 1 + @random.rand(160)
    @context = "SEED=#{@seed}, #{@format}, trial #{number}#{" (#{act} at call #{at})" if within}"
    @orders.give(act, at, CALLS) if within
    told, tell = IO.pipe
    pids = Array.new(2) { fork { told.close; write_on(tell) } }
    tell.close
    said = within ? one_ends(pids, told) : both_at_once(told)
    pids.each { |pid| Process.kill(:KILL, pid) }
    raise "a writer failed: #{@context}" unless pids.all? { |pid| Process.wait2(pid)[1].signaled? }

    count = @orders&.none
    @killed[within && count >= at ? :within : :anywhere] += 1
    said = (said + told.read).lines.select { |line| line.end_with?("\n") }.map(&:to_i)
    told.close
    check([@known, *said].max)
  end

  # The first have begun: from here on the kills come between a few and a few hundred microseconds.
  def both_at_once(told)
    said = told.readpartial(4096)
    @random.rand(200).times { Thread.pass }
    said
  end

  # Which of them comes to that call is open. The other must go on: it tells of one more.
  def one_ends(pids, told)
    ended, status = Process.wait2
    raise "a writer failed: #{status}" unless status.signaled?

    pids.delete(ended)
    said = +""
    loop { said << told.read_nonblock(65_536) }
  rescue IO::EAGAINWaitReadable
    raise "the other writer does not go on: #{@context}" unless IO.select([told], nil, nil, 60)

    said << told.readpartial(65_536)
  end

  def check(known)
    # Whoever opens it alone looks at all of it.
    Paceline::Records.at(@file).close if @format == :records && File.exist?(@file) && @random.rand(2).zero?
    found = store.transaction(true) { |s| [s[:count] || 0, s[:twin] || 0, s[:list]&.size || 0] }
    context = "#{@context}: known #{known}, found #{found}"
    # Each writer may have committed one that it could not tell of.
    raise "lost: #{context}" if found[0] < known
    raise "too many: #{context}" if found[0] > known + 2
    raise "torn: #{context}" unless found == [found[0], found[0], found[0] % 50]

    @known = found[0]
  end

  # Tells of each count after its transaction.
  def write_on(tell)
    mine = store
    loop do
      count = mine.transaction do |s|
        s[:count] = (s[:count] || 0) + 1
        s[:twin] = s[:count]
        s[:list] = (s[:list] || []) << ("x" * 500)
        s[:list] = [] if s[:count] % 50 == 0
        s[:count]
      end
      tell.syswrite("#{count}\n")
    end
  end

  def store
    Paceline::PStore.new(@file, format: @format).tap { |store| store.ultra_safe = @ultra_safe }
  end
end

# ruby kill_trials.rb FILE FORMAT ULTRA_SAFE(0 or 1) COUNT SEED
if $PROGRAM_NAME == __FILE__
  file, format, ultra_safe, count, seed = ARGV
  orders = ENV["FAULTS_ORDERS"] && Faults::Orders.new(ENV["FAULTS_ORDERS"])
  p KillTrials.new(file, format.to_sym, ultra_safe == "1", seed.to_i, orders).run(count.to_i)
end
