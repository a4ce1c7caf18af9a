# frozen_string_literal: true

# What goes wrong where sentinels watch a primary and its replica: cables and servers as everywhere, and a primary that is killed, cut off in one direction from
# all or from some, or whose replica has not got the last purges. Each fault ends when there is a primary with a replica again and all servers use it.
require_relative "../../e2e/support/valkey_group"
require_relative "faults"

class Failovers < Faults
  NAMES = (COMMON + %w[primary_killed primary_mute primary_deaf primary_split replica_lags]).freeze
  # The replica may lack what nobody has confirmed, until those who know it reach it. With two primaries each has its own purges.
  LATE = { "primary_split" => "all", **%w[primary_killed primary_mute primary_deaf replica_lags].to_h { |name| [name, "unconfirmed"] } }.freeze
  # For how long a replica lags before the primary dies: shorter than anybody notices.
  LAGS = 0.1..1.0
  # Seconds for which a primary takes purges without a replica, as docs/cluster.md advises; and those in which its servers find the other one.
  ALONE, FINDING = 2, 3

  private

  def valkeys = @valkey.hosts

  def primary_killed(_, lasts)
    primary = @valkey.now
    primary.kill
    @valkey.moved_from(primary)
    sleep lasts / 2
    @valkey.rejoin(primary)
    regained
  end

  # Whatever it says is lost.
  def primary_mute(_, lasts) = cut_off(lasts) { |primary, other| [primary, other] }

  # It hears nothing.
  def primary_deaf(_, lasts) = cut_off(lasts) { |primary, other| [other, primary] }

  def cut_off(lasts)
    primary = @valkey.host(@valkey.now)
    others = valkeys - [primary] + @members.map { |member| host(member) }
    others.each { |other| @network.rule(*yield(primary, other), cut: true) }
    sleep lasts + FINDING
    @network.free
    regained
  end

  # Some servers still reach it, and neither the sentinels nor its replica nor the other servers do.
  def primary_split(_, lasts)
    primary = @valkey.now
    @valkey.needs_replica(primary, ALONE)
    away = @members.sample(@random.rand(1...@members.size), random: @random).map { |member| host(member) }
    [*(valkeys - [@valkey.host(primary)]), *away].each { |other| @network.rule(@valkey.host(primary), other, cut: true) }
    sleep lasts + ALONE + FINDING
    @network.free
    regained
    @valkey.needs_replica(primary, nil)
  end

  # The last purges are only at the primary when it dies.
  def replica_lags(_, _)
    primary = @valkey.now
    @network.rule(@valkey.host(primary), @valkey.host(@valkey.other(primary)), cut: true)
    sleep @random.rand(LAGS)
    primary.kill
    @valkey.moved_from(primary)
    @network.free
    @valkey.rejoin(primary)
    regained
  end

  def regained
    @valkey.whole
    place = @valkey.now.place
    ValkeyGroup.settled("all servers at #{place}") do
      @members.all? { |member| member.control("/cluster").last.then { |said| said["shows_pages"] && said["primary"] == place } }
    end
    nil
  end
end
