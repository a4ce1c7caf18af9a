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

  # Options that have a server listen at this port. TLS: files with its certificate, its key and the authority's certificate; then it speaks nothing else there.
  def self.listening(port, tls)
    return { "port" => port } unless tls
    { "port" => 0, "tls-port" => port, "tls-replication" => "yes", "tls-auth-clients" => "no", **%w[tls-cert-file tls-key-file tls-ca-cert-file].zip(tls).to_h }
  end

  # The same as arguments.
  def self.arguments(options) = options.flat_map { |name, value| ["--#{name}", value.to_s] }

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
  # Where one of them is: its address, and the command that it is run by to be there.
  Host = Struct.new(:address, :within)
  HERE = Host.new(HOST, [].freeze).freeze

  # What they were at the start.
  attr_reader :primary, :replica, :sentinels

  # HOSTS: theirs, in this order. TLS: see `ValkeyGroup.listening`.
  def initialize(hosts: [HERE] * 5, tls: nil)
    @tls = tls
    primary, replica, *sentinels = hosts.zip(ValkeyGroup.ports(hosts.size))
    @primary = Node.new(*primary, tls)
    @replica = Node.new(*replica, tls, *@primary.following)
    ValkeyGroup.settled("the replica") { cli(@replica, "INFO", "replication").include?("master_link_status:up") }
    @sentinels = []
    sentinels.each { |host, port| @sentinels << Sentinel.new(host, port, tls, @primary) }
    ValkeyGroup.settled("sentinels that know each other and the replica") { @sentinels.all? { |sentinel| sentinel.knows?(1, 2) } }
  rescue StandardError
    close
    raise
  end

  def url = "redis#{"s" if @tls}-sentinel://:#{SECRET}@#{@sentinels.map(&:place).join(",")}/#{NAME}"

  def primary_place = @primary.place

  def replica_place = @replica.place

  def cli(server, *arguments) = server.cli(*arguments)

  def close = [*@sentinels, @replica, @primary].compact.each(&:close)

  # The primary or the replica.
  class Node < Valkey
    def initialize(host, port, tls, *role)
      @host, @port = host, port
      secrets = { "requirepass" => SECRET, "masterauth" => SECRET }
      super(*ValkeyGroup.arguments({ "bind" => host.address, "repl-diskless-sync-delay" => 0, **secrets, **ValkeyGroup.listening(port, tls) }), *role, within: host.within)
    end

    def place = "#{@host.address}:#{@port}"

    def cli(*arguments) = super("--no-auth-warning", "-a", SECRET, *arguments)

    # Options of a server that follows this one.
    def following = ["--replicaof", @host.address, @port.to_s]
  end

  # Watches a primary, and starts the failover when another one agrees that it is down.
  class Sentinel < Valkey
    def initialize(host, port, tls, primary)
      @host, @port, @tls, @primary = host, port, tls, primary
      super(within: host.within)
    end

    def place = "#{@host.address}:#{@port}"

    def cli(*arguments) = super("--no-auth-warning", "-a", SENTINEL_SECRET, *arguments)

    def ask(*words) = cli("SENTINEL", *words)

    def knows?(replicas, sentinels)
      told = facts("MASTER")
      told["num-slaves"].to_i >= replicas && told["num-other-sentinels"].to_i >= sentinels
    end

    # What it says of the primary (MASTER), or of the only replica (REPLICAS).
    def facts(whom) = ask(whom, NAME).split("\n").each_slice(2).to_h

    private

    def program
      file = File.join(@folder, "sentinel.conf")
      File.write(file, <<~TEXT)
        #{ValkeyGroup.listening(@port, @tls).map { |option| option.join(" ") }.join("\n")}
        bind #{@host.address}
        dir #{@folder}
        unixsocket #{@socket}
        requirepass #{SENTINEL_SECRET}
        sentinel monitor #{NAME} #{@primary.place.tr(":", " ")} 2
        sentinel auth-pass #{NAME} #{SECRET}
        sentinel down-after-milliseconds #{NAME} 500
        sentinel failover-timeout #{NAME} 3000
      TEXT
      [Valkey.program, file, "--sentinel"]
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
    await_acquaintance
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
    # A replica that does not know the other primaries asks none of them for its vote.
    await_acquaintance
    ValkeyGroup.settled("a replica") { replica.cli("CLUSTER", "REPLICATE", id).strip == "OK" }
    ValkeyGroup.settled("a copy") { replica.cli("INFO", "replication").include?("master_link_status:up") }
    ValkeyGroup.settled("a cluster that knows the replica") { @nodes.values.all? { |node| node.cli("CLUSTER", "REPLICAS", id).include?("slave") } }
    owner.kill
    place(port)
  end

  def close = @nodes.each_value(&:close)

  private

  # Waits until each node knows all the others.
  def await_acquaintance
    known = "cluster_known_nodes:#{@nodes.size}"
    ValkeyGroup.settled("nodes that know each other") do
      @nodes.values.all? { |node| node.cli("CLUSTER", "INFO").then { |told| told.include?("cluster_state:ok") && told.include?(known) } }
    end
  end

  # One more node, which has met one of the others.
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
