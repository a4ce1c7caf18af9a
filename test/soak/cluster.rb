# frozen_string_literal: true

# `bin/soak cluster`: servers of several machines that share purges and pages by a Valkey, under clients and faults at random. Each request goes into a history,
# which is judged as a whole afterwards. The seed chooses the faults and their order, how many servers there are, and whether they share pages and have a disk;
# at which moments things meet differs from run to run. With --sentinel there are a primary, a replica and three sentinels in place of one Valkey; --engine names the
# program that all of them are.
require "optparse"
require "tmpdir"
require_relative "../e2e/support/valkey"
require_relative "cluster/clients"
require_relative "cluster/failovers"
require_relative "cluster/faults"
require_relative "cluster/history"
require_relative "cluster/judge"
require_relative "cluster/member"
require_relative "cluster/network"
require_relative "cluster/pages"
require_relative "cluster/watched_hosts"

class ClusterSoak
  # Seconds for which servers without Valkey show pages.
  TTL = 1
  # All is well again within this.
  SETTLES = 30
  SHOWN = 10

  def initialize(options)
    @options = options
    @random = Random.new(options[:seed])
    @count = options[:members] || @random.rand(3..5)
    @shares, @disk = @random.rand(2).zero?, @random.rand(2).zero?
    @history = History.new
  end

  def self.faults(options) = options[:sentinel] ? Failovers : Faults

  # True: nothing was wrong.
  def run
    puts "  seed #{@options[:seed]}: #{@count} servers, shared_cache #{@shares ? "on" : "off"}, disk #{@disk ? "on" : "off"}"
    Dir.mktmpdir("paceline-soak-") do |folder|
      open(folder)
      puts "  #{@valkey.version}#{" with a replica and three sentinels" if watched?}"
      clients = Clients.new(@members, @pages, @history, @options[:seed])
      begin
        disturb
      ensure
        clients.close
      end
      settle(clients)
      conclude
    ensure
      close
    end
  end

  private

  def open(folder)
    @network = Network.new(@count + (watched? ? WatchedHosts::COUNT : 1), @options[:seed])
    @valkey = watched? ? watched(folder) : alone
    @pages = Pages.new(folder, @options[:seed])
    @history.add("settings", ttl: TTL, members: @count, stale: Pages::ALL.select(&:stale?).map(&:path), options: @options, shared_cache: @shares, disk: @disk)
    @members = Array.new(@count) { |number| Member.new(number, folder, settings, @network.on(number + 1), @history) }
    @members.map { |member| Thread.new { member.start } }.each(&:join)
    eventually("all servers to show pages") { @members.all?(&:shows_pages?) }
  end

  def watched? = @options[:sentinel]

  def alone
    Valkey.new("--bind", @network.address(0), "--port", "6379", "--protected-mode", "no", "--enable-debug-command", "yes", within: @network.on(0)).tap do
      @address = "url = \"redis://#{@network.address(0)}:6379\""
    end
  end

  # Its hosts are the first one and those behind the servers'.
  def watched(folder)
    secret = File.join(folder, "sentinels")
    File.write(secret, WatchedValkey::SENTINEL_SECRET)
    WatchedHosts.new(@network, [0, *(@count + 1...@count + WatchedHosts::COUNT)]).tap do |group|
      @address = "url = \"#{group.url}\"\nsentinel_password_file = \"#{secret}\""
    end
  end

  def settings
    <<~TOML
      bind = ["unix://LISTEN"]
      front_threads = 1
      #{"cache_disk = \"8MB\"\ncache_dir = \"cache\"" if @disk}
      [cluster]
      #{@address}
      name = "soak"
      partition_ttl = "#{TTL}s"
      shared_cache = #{@shares}
      [[site]]
      upstream = "http://unix:#{@pages.path}"
    TOML
  end

  def disturb
    return self.class.faults(@options).new(@network, @valkey, @members, @history, @options[:seed], @options[:faults]).run(History.now + @options[:seconds]) unless @options[:kills]
    @options[:kills].times do
      member = @members.sample(random: @random)
      member.crash(@random.rand(0.2))
      eventually("server #{member.number} to be back") { member.shows_pages? }
    end
  end

  # When all is well, a purge is confirmed, and everybody shows what is.
  def settle(clients)
    eventually("all servers to show pages") { @members.all?(&:shows_pages?) }
    @members.each { |member| eventually("a purge at server #{member.number} to be confirmed") { clients.purge(@random, member: member, wait: true)[:outcome] == "confirmed" } }
    versions = @pages.change(:all, true)
    start = History.now
    status, said = @members.first.control("/cache/purge", { all: true, wait: true })
    raise "the last purge was not confirmed: #{status} #{said}" unless said["confirmed"]
    @history.add("purge", start: start, member: 0, how: :all, soft: false, wait: true, versions: versions, outcome: "confirmed")
    @members.product(Pages::ALL) { |member, page| clients.page(member, page) }
  end

  def conclude
    judge = Judge.new(@history.records)
    puts "  #{judge.counts.map { |what, count| "#{what} #{count}" }.join(", ")}"
    wrongs = judge.wrongs
    wrongs += ["nothing was tried: #{judge.counts}"] unless judge.counts.values_at("hits", "confirmed", "owed by all").all?(&:positive?)
    return true if wrongs.empty? && !@options[:keep]
    folder = File.join(Member::CHECKOUT, "tmp/soak")
    FileUtils.mkdir_p(folder)
    path = @history.save(File.join(folder, "cluster-#{@options[:seed]}.jsonl"))
    @members.each { |member| File.write(path.sub(/jsonl\z/, "server#{member.number}.log"), member.output) }
    puts wrongs.first(SHOWN), "  #{wrongs.size} wrong; history, faults and logs: #{path}"
    wrongs.empty?
  end

  def close
    @valkey.signal(:CONT) if @valkey.is_a?(Valkey) && @valkey.pid
    @members&.each(&:close)
    @pages&.close
    @valkey&.close
    @network&.close
  end

  def eventually(what)
    limit = History.now + SETTLES
    until yield
      raise "waited #{SETTLES} s for #{what}" if History.now > limit
      sleep 0.05
    end
  end
end

options = { seed: Random.new_seed % 1_000_000, seconds: 60 }
command_line = OptionParser.new do |parser|
  parser.banner = "bin/soak cluster [MINUTES] [options]"
  parser.on("--seed S", Integer, "repeats a run: the same faults in the same order") { |seed| options[:seed] = seed }
  parser.on("--members N", Integer, "3 to 5 servers (default: by the seed)") { |count| options[:members] = count.clamp(2, 9) }
  parser.on("--sentinel", "a primary, a replica and three sentinels in place of one Valkey") { options[:sentinel] = true }
  parser.on("--engine PATH", "the program valkey-server or redis-server (default: VALKEY_SERVER, or the one of PATH)") { |path| ENV["VALKEY_SERVER"] = File.expand_path(path) }
  parser.on("--faults A,B", Array, "only these of #{Faults::NAMES.join(", ")}; with --sentinel of #{Failovers::NAMES.join(", ")}") { |names| options[:faults] = names }
  parser.on("--kills N", Integer, "instead of all other faults: a server is killed and started again N times") { |kills| options[:kills] = kills }
  parser.on("--keep", "keep the history, though nothing is wrong") { options[:keep] = true }
  parser.on("--judge FILE", "judge a history that was kept") { |file| options[:judge] = file }
end
minutes = command_line.parse(ARGV).first
options[:seconds] = Float(minutes) * 60 if minutes
unknown = options.fetch(:faults, []) - ClusterSoak.faults(options)::NAMES
abort "bin/soak cluster: there is no fault #{unknown.join(", ")}; see --help" if unknown.any?
abort "bin/soak cluster: #{ENV["VALKEY_SERVER"]} can't be run" if ENV["VALKEY_SERVER"] && !File.executable?(ENV["VALKEY_SERVER"])
if options[:judge]
  judge = Judge.new(History.load(options[:judge]))
  puts judge.counts.map { |what, count| "#{what} #{count}" }.join(", "), judge.wrongs
  exit judge.wrongs.empty?
end
why = Network.missing || ("there is no valkey-server and no redis-server" unless Valkey.program)
if why
  puts "NOT RUN: bin/soak cluster: #{why}"
  exit
end
# What is started is ended.
%w[TERM HUP].each { |signal| trap(signal) { raise Interrupt } }
exit ClusterSoak.new(options).run
