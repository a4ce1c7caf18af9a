# Several Valkeys or Redises on ports of a test's own: a primary and its replica with sentinels that watch them, or the nodes
# of a cluster. They assert nothing themselves.
require "socket"
require_relative "valkey"

# Several that belong together.
class ValkeyGroup
  HOST = "127.0.0.1".freeze

  # So many ports that nobody has.
  def self.ports(count)
    sockets = Array.new(count) { TCPServer.new(HOST, 0) }
    sockets.map { |socket| socket.addr[1] }
  ensure
    sockets&.each(&:close)
  end

  def place(port) = "#{HOST}:#{port}"

  # Waits until the block says something.
  def self.settled(what)
    Timeout.timeout(30, nil, "waited for #{what}") do
      sleep 0.02 until (result = yield)
      result
    end
  end
end

# A primary, a replica, and three sentinels of which two have to agree. All have passwords.
class WatchedValkey < ValkeyGroup
  NAME = "shop".freeze
  SECRET, SENTINEL_SECRET = %w[open-sesame watch-out].freeze

  attr_reader :primary, :replica

  def initialize
    @primary_port, @replica_port, *@sentinel_ports = ValkeyGroup.ports(5)
    options = ["--bind", HOST, "--requirepass", SECRET, "--masterauth", SECRET, "--repl-diskless-sync-delay", "0"]
    @primary = Valkey.new("--port", @primary_port.to_s, *options)
    @replica = Valkey.new("--port", @replica_port.to_s, "--replicaof", HOST, @primary_port.to_s, *options)
    ValkeyGroup.settled("the replica") { cli(@replica, "INFO", "replication").include?("master_link_status:up") }
    @sentinels = @sentinel_ports.map { |port| Sentinel.new(port, @primary_port) }
    ValkeyGroup.settled("sentinels that know each other and the replica") { @sentinels.all? { |sentinel| sentinel.knows?(1, 2) } }
  end

  def url = "redis-sentinel://:#{SECRET}@#{@sentinel_ports.map { |port| place(port) }.join(",")}/#{NAME}"

  def primary_place = place(@primary_port)

  def replica_place = place(@replica_port)

  def cli(server, *arguments) = server.cli("--no-auth-warning", "-a", SECRET, *arguments)

  def close = [*@sentinels, @replica, @primary].compact.each(&:close)

  # Watches a primary, and starts the failover when another one agrees that it is down.
  class Sentinel < Valkey
    def initialize(port, primary_port)
      @port, @primary_port = port, primary_port
      super()
    end

    def knows?(replicas, sentinels)
      told = cli("--no-auth-warning", "-a", SENTINEL_SECRET, "SENTINEL", "MASTER", NAME).split("\n").each_slice(2).to_h
      told["num-slaves"].to_i >= replicas && told["num-other-sentinels"].to_i >= sentinels
    end

    private

    def program
      file = File.join(@folder, "sentinel.conf")
      File.write(file, <<~TEXT)
        port #{@port}
        bind #{ValkeyGroup::HOST}
        dir #{@folder}
        unixsocket #{@socket}
        requirepass #{SENTINEL_SECRET}
        sentinel monitor #{NAME} #{ValkeyGroup::HOST} #{@primary_port} 2
        sentinel auth-pass #{NAME} #{SECRET}
        sentinel down-after-milliseconds #{NAME} 500
        sentinel failover-timeout #{NAME} 3000
      TEXT
      [PROGRAM, file, "--sentinel"]
    end

    def ready = /Sentinel ID is/
  end
end

# Three nodes that share the slots, and a replica of one that can be asked for.
class ValkeyCluster < ValkeyGroup
  SLOTS = [0..5460, 5461..10_922, 10_923..16_383].freeze

  def initialize
    @nodes = {}
    SLOTS.each { |slots| node(slots) }
    ValkeyGroup.settled("a cluster") do
      @nodes.values.all? { |node| node.cli("CLUSTER", "INFO").then { |told| told.include?("cluster_state:ok") && told.include?("cluster_known_nodes:3") } }
    end
  end

  # Host and port of the primary that has a key, as the nodes know it.
  def owner(key)
    place(@nodes.find { |_, node| node.pid && has?(node, key) }&.first || raise("nobody has #{key}"))
  end

  def urls = @nodes.keys.map { |port| "redis://#{place(port)}" }

  # Moves the slot of a key to another node; where it is now.
  def move(key)
    from = @nodes.find { |_, node| has?(node, key) }.last
    port, to = @nodes.find { |_, node| node != from }
    slot = from.cli("CLUSTER", "KEYSLOT", key).strip
    from_id, to_id = [from, to].map { |node| node.cli("CLUSTER", "MYID").strip }
    to.cli("CLUSTER", "SETSLOT", slot, "IMPORTING", from_id)
    from.cli("CLUSTER", "SETSLOT", slot, "MIGRATING", to_id)
    keys = from.cli("CLUSTER", "GETKEYSINSLOT", slot, "100").split("\n").reject(&:empty?)
    from.cli("MIGRATE", HOST, port.to_s, "", "0", "5000", "KEYS", *keys) if keys.any?
    [to, from, *@nodes.values].uniq.each { |node| node.cli("CLUSTER", "SETSLOT", slot, "NODE", to_id) }
    place(port)
  end

  # Kills the node that has a key, after it got a replica; where it is now.
  def fail_over(key)
    owner = @nodes.find { |_, node| has?(node, key) }.last
    port, replica = node(nil)
    id = owner.cli("CLUSTER", "MYID").strip
    ValkeyGroup.settled("a replica") { replica.cli("CLUSTER", "REPLICATE", id).strip == "OK" }
    ValkeyGroup.settled("a copy") { replica.cli("INFO", "replication").include?("master_link_status:up") }
    ValkeyGroup.settled("a cluster that knows the replica") { @nodes.values.all? { |node| node.cli("CLUSTER", "REPLICAS", id).include?("slave") } }
    owner.kill
    place(port)
  end

  def close = @nodes.each_value(&:close)

  private

  # One more node, which knows the others.
  def node(slots)
    port, bus = ValkeyGroup.ports(2)
    node = Valkey.new("--port", port.to_s, "--bind", HOST, "--cluster-enabled", "yes", "--cluster-port", bus.to_s, "--cluster-node-timeout", "1000",
      "--repl-diskless-sync-delay", "0")
    node.cli("CLUSTER", "SET-CONFIG-EPOCH", (@nodes.size + 1).to_s)
    node.cli("CLUSTER", "ADDSLOTSRANGE", slots.first.to_s, slots.last.to_s) if slots
    @buses ||= {}
    @buses[port] = bus
    other = @nodes.keys.first
    node.cli("CLUSTER", "MEET", HOST, other.to_s, @buses[other].to_s) if other
    @nodes[port] = node
    [port, node]
  end

  def has?(node, key) = !node.cli("EXISTS", key).match?(/MOVED|CLUSTERDOWN/)
end
