# frozen_string_literal: true

# Balancers before the same hosts, in turn: with one slow host, with one that is killed under load, and what a request costs. Prints nothing.
require "fileutils"
require "net/http"
require "tmpdir"
require_relative "../lib/arithmetic"
require_relative "../lib/caches"
require_relative "../lib/kind"
require_relative "../lib/load"
require_relative "../lib/measurement"
require_relative "../lib/processes"
require_relative "../lib/round_contest"
require_relative "../lib/running_server"

module Bench
  # Options: rounds, seconds, rate, connections.
  class BalanceContest < RoundContest
    HOST = File.expand_path("host.rb", __dir__)
    KILOBYTE = "x" * 1024
    BALANCERS = ["paceline", "haproxy leastconn", "haproxy random(2)"].freeze
    # Milliseconds of each host.
    SCENES = { slow: [5, 5, 5, 100], dies: [5, 5, 5], cost: :nginx }.freeze

    # {scene => {balancer => what was found in each round}}
    def run
      SCENES.keys.to_h { |scene| [scene, in_turn(BALANCERS, "#{scene}, ") { |name| measure(scene, name) }] }
    end

    private

    def measure(scene, name)
      Dir.mktmpdir("paceline-balance-") do |work|
        with_hosts(scene, work) do |ports, pids|
          balancer = RunningServer.new(server(name, ports), Struct.new(:directory, :environment).new(work, {}), @processes, work, "/up").start
          method(scene).call(balancer.port, pids)
        ensure
          balancer&.stop
        end
      end
    end

    def with_hosts(scene, work)
      times = SCENES.fetch(scene)
      ports = Array.new(times == :nginx ? 3 : times.size) { TCPServer.open("127.0.0.1", 0) { |socket| socket.addr[1] } }
      pids = ports.each_with_index.map { |port, nth| spawn_host(times == :nginx ? nil : times[nth], port, work) }
      @processes.own(*pids) do
        ports.each { |port| await(port) }
        yield ports, pids
      end
    ensure
      Processes.signal(ending(times), pids) if pids
      pids&.each { |pid| reap(pid) }
    end

    # nginx's workers go on without their master if that is killed.
    def ending(times) = times == :nginx ? "TERM" : "KILL"

    def spawn_host(time, port, work)
      own = File.join(work, "host-#{port}")
      FileUtils.mkdir_p(own)
      command = time ? [RbConfig.ruby, HOST, port.to_s, time.to_s] : Caches.nginx("balance.nginx.conf", port, own)
      Process.spawn(*Processes.ending_with_us(ending(time || :nginx)), *command, %i[out err] => File.join(own, "output.log"))
    end

    def await(port)
      limit = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 30
      begin
        TCPSocket.new("127.0.0.1", port).close
      rescue SystemCallError
        raise RunningServer::Failed, "a host does not start" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > limit

        sleep 0.02
        retry
      end
    end

    def reap(pid)
      Process.waitpid(pid)
    rescue Errno::ECHILD
      nil
    end

    def server(name, ports)
      return haproxy(name, ports) unless name == "paceline"

      urls = ports.map { |port| "http://127.0.0.1:#{port}" }
      settings = "[[site]]\nupstream = #{urls.inspect}\nupstream_check = \"/up\"\nupstream_connect_timeout = \"1s\"\npage_cache = false\n"
      Server.new(name: name, worker: /paceline/, workers: 1, threads: 0, command: lambda do |port, work|
        File.write("#{work}/paceline.toml", settings)
        [Servers.paceline, "-C", "#{work}/paceline.toml", "-b", "tcp://127.0.0.1:#{port}", "-e", "production", "-q", "--front-threads", "2"]
      end)
    end

    def haproxy(name, ports)
      hosts = ports.each_with_index.map { |port, nth| "  server h#{nth} 127.0.0.1:#{port}" }.join("\n")
      Server.new(name: name.tr(" ()", "-"), package: "haproxy", worker: /haproxy/, workers: 1, threads: 0, command: lambda do |port, work|
        text = File.read(File.join(Servers::PEERS, "balance.haproxy.cfg"))
        text = text.sub("PORT", port.to_s).sub("ALGORITHM", name.split.last).sub("HOSTS", hosts)
        File.write("#{work}/haproxy.cfg", text)
        ["/usr/sbin/haproxy", "-db", "-f", "#{work}/haproxy.cfg"]
      end)
    end

    def load(port, **more)
      kind = Kind.new("page", "/page", expected: KILOBYTE)
      Load.new(port: port, mix: [[kind, 1]], keep_alive: true, percentiles: true, **more)
    end

    # Requests at fixed times while one host is slow.
    def slow(port, _)
      found = Measurement.of(load(port, rate: @options[:rate], seconds: @options[:seconds], connections: 64), @processes).result
      { p50: found.p50 * 1000, p99: found.p99 * 1000, lost: found.failures.sum(&:last), requests: found.completed }
    end

    # The same while a host is killed in the middle.
    def dies(port, pids)
      killer = Thread.new do
        sleep @options[:seconds] / 2.0
        Processes.signal("KILL", [pids.first])
      end
      slow(port, pids)
    ensure
      killer&.join
    end

    # As many as it takes, on hosts that cost nothing.
    def cost(port, _)
      measured = Measurement.of(load(port, seconds: @options[:seconds], connections: @options[:connections]), @processes)
      { cpu: Arithmetic.cpu_per_request(measured.cpu, measured.result.completed), rate: measured.rate, p99: measured.result.p99 * 1000, lost: measured.failures.sum(&:last) }
    end
  end
end
