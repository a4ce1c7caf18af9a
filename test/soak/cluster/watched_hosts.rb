# frozen_string_literal: true

# A primary, its replica and three sentinels on hosts of their own in a network, which change their roles again and again. It causes no faults.
require_relative "../../e2e/support/valkey_group"

class WatchedHosts < WatchedValkey
  COUNT = 5
  # Sentinels usually look every ten seconds whether everybody has the role that they gave them, and do nothing for half a minute on a machine that is busy
  # (milliseconds).
  EAGER = %w[INFO-PERIOD 500 PUBLISH-PERIOD 500 TILT-PERIOD 1000].freeze

  # Numbers of the hosts.
  attr_reader :hosts

  def initialize(network, hosts)
    @hosts = hosts
    super(hosts: hosts.map { |number| Host.new(network.address(number), network.on(number)) })
    sentinels.each { |sentinel| sentinel.ask("DEBUG", *EAGER) }
  end

  def nodes = [primary, replica]

  def other(node) = nodes.find { |one| one != node }

  # The number of its host.
  def host(node) = hosts.fetch(nodes.index(node))

  # The one that all sentinels name as the primary. Nil: they disagree.
  def named
    places = sentinels.map { |sentinel| sentinel.ask("GET-MASTER-ADDR-BY-NAME", NAME).split.join(":") }.uniq
    nodes.find { |node| places == [node.place] }
  end

  # The same; waits until they agree.
  def now = ValkeyGroup.settled("sentinels that agree") { named }

  # Waits until all sentinels name the other one.
  def moved_from(node) = ValkeyGroup.settled("a fail-over") { named == other(node) }

  # One that was killed comes back with nothing, and copies the other one.
  def rejoin(node)
    node.forget
    node.start(*other(node).following)
  end

  # Whether it refuses purges while no replica has answered for so many seconds; nil: it takes them.
  def needs_replica(node, seconds)
    cli(node, "CONFIG", "SET", "min-replicas-max-lag", seconds.to_s) if seconds
    cli(node, "CONFIG", "SET", "min-replicas-to-write", seconds ? "1" : "0")
  end

  # Waits until the next failover can succeed.
  def whole = ValkeyGroup.settled("a primary with a replica, and sentinels that see both") { whole? }

  def version = primary.version

  private

  def whole?
    node = named or return false
    is_copied = cli(other(node), "INFO", "replication").then { |said| said.include?("role:slave") && said.include?("master_link_status:up") }
    is_copied && cli(node, "INFO", "replication").match?(/^slave0:.*state=online/) && sentinels.all? { |sentinel| calm?(sentinel) }
  rescue Valkey::Failed
    # Sentinels close all connections of a primary that they make a replica.
    false
  end

  def calm?(sentinel)
    copy = sentinel.facts("REPLICAS")
    sentinel.knows?(1, 2) && copy["master-link-status"] == "ok" && [sentinel.facts("MASTER"), copy].none? { |one| one["flags"].to_s.match?(/down|disconnected|failover/) }
  end
end
