# frozen_string_literal: true

# What goes wrong with a cluster, one thing after the other, in an order that the seed gives: slow, lossy and cut cables, a Valkey that is killed, paused, full,
# slow or comes back with old data, servers that are killed or stand still. Each fault ends, and is in the history. It never touches a client's connection.
require_relative "history"

class Faults
  # Of cables and servers, whatever Valkey is.
  COMMON = %w[delayed lossy slow_and_lossy cut_from_valkey cut_to_valkey cut server_killed server_paused].freeze
  NAMES = (COMMON + %w[valkey_killed valkey_restarted valkey_older valkey_paused valkey_full valkey_slow emptied_while_cut]).freeze
  # Purges that nobody has confirmed may be lost with these.
  LOSE = %w[valkey_killed valkey_older emptied_while_cut].freeze
  # Purges that come with these are owed only after them (see Judge): all, or those that nobody has confirmed.
  LATE = {}.freeze
  # Longer than `partition_ttl`, and shorter.
  LASTS, RESTS = (0.4..2.5), (0.3..1.5)
  VALKEY = 0

  # VALKEY: a Valkey. NAMES: only these; nil: all.
  def initialize(network, valkey, members, history, seed, names)
    @network, @valkey, @members, @history, @names = network, valkey, members, history, names || self.class::NAMES
    @random, @left = Random.new(seed), []
  end

  # One after the other until then.
  def run(limit)
    while History.now + LASTS.begin < limit
      @left = @names.shuffle(random: @random) if @left.empty?
      cause(@left.shift)
      sleep @random.rand(RESTS)
    end
  end

  # Returns when all is well again.
  def cause(name)
    acquaint if LOSE.include?(name) || self.class::LATE[name]
    start, lasts, member = History.now, @random.rand(LASTS), @members.sample(random: @random)
    whom = send(name, member, lasts)
    @history.add("fault", start: start, name: name, loses: LOSE.include?(name), late: self.class::LATE[name], server: whom.is_a?(Member) ? whom.number : nil)
  end

  private

  # A server that was started a moment ago may be missed when Valkey is lost (docs/cluster.md). Who purges looks who is there.
  def acquaint = @members.each { |member| member.control("/cache/purge", { tag: "none", wait: true }) }

  # Host of a member in the network.
  def host(member) = member.number + 1

  # All that belongs to Valkey in the network.
  def valkeys = [VALKEY]

  def cable(members, lasts, to: {}, from: {})
    members.product(valkeys) do |member, valkey|
      @network.rule(valkey, host(member), **to) if to.any?
      @network.rule(host(member), valkey, **from) if from.any?
    end
    sleep lasts
    @network.free
    members.one? ? members.first : nil
  end

  def delayed(_, lasts) = cable(@members, lasts, to: { delay: 0.2 }, from: { delay: 0.2 })
  def lossy(_, lasts) = cable(@members, lasts, to: { loss: 0.05 }, from: { loss: 0.05 })
  def slow_and_lossy(member, lasts) = cable([member], lasts, to: { delay: 0.2, loss: 0.2 }, from: { loss: 0.2 })
  def cut_from_valkey(member, lasts) = cable([member], lasts, to: { cut: true })
  def cut_to_valkey(member, lasts) = cable([member], lasts, from: { cut: true })
  def cut(member, lasts) = cable([member], lasts, to: { cut: true }, from: { cut: true })

  def valkey_killed(_, lasts)
    @valkey.kill
    @valkey.forget
    sleep lasts
    @valkey.start
  end

  # One server does not see that it came back empty, and may show pages for a while.
  def emptied_while_cut(member, lasts)
    @network.rule(VALKEY, host(member), cut: true)
    @network.rule(host(member), VALKEY, cut: true)
    valkey_killed(member, 0)
    cable([member], lasts, to: { cut: true })
  end

  def valkey_restarted(_, lasts)
    @valkey.stop
    sleep lasts
    @valkey.start
  end

  # What has come since it has saved is gone.
  def valkey_older(_, lasts)
    @valkey.cli("SAVE")
    sleep lasts
    @valkey.kill
    @valkey.start
  end

  def valkey_paused(_, lasts)
    @valkey.signal(:STOP)
    sleep lasts
    @valkey.signal(:CONT)
  end

  # It refuses whatever takes memory.
  def valkey_full(_, lasts)
    @valkey.cli("CONFIG", "SET", "maxmemory", "1")
    sleep lasts
    @valkey.cli("CONFIG", "SET", "maxmemory", "0")
  end

  # One command takes all of its time, as a slow script does.
  def valkey_slow(_, lasts) = @valkey.cli("DEBUG", "SLEEP", lasts.to_s)

  def server_killed(member, lasts)
    member.crash(lasts / 4)
    member
  end

  def server_paused(member, lasts)
    member.signal(:STOP)
    sleep lasts
    member.signal(:CONT)
    member
  end
end
