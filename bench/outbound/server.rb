# frozen_string_literal: true

# Paceline with the application of bench/apps/outbound, in a place: asked over a Unix socket, which is there for whoever is in another network, too.
require "json"
require "socket"
require_relative "../lib/apps"
require_relative "../lib/running_server"

module Bench
  class OutboundServer < RunningServer
    # Seconds: of the whole request, as its client sees it; the rest as the application says it.
    Page = Struct.new(:seconds, :answer)
    GEM = File.join(Servers::HERE, "gem/lib")
    # Seconds until a worker of the next generation answers.
    RESTART_LIMIT = 60

    def initialize(place, upstream, processes, work, workers: 1, threads: Servers::THREADS)
      @place = place
      folder = File.join(work, "app")
      FileUtils.rm_rf(folder)
      FileUtils.mkdir_p(File.join(folder, "tmp"))
      FileUtils.cp(File.join(Apps::HERE, "bench/apps/outbound/config.ru"), folder)
      environment = { "OUTBOUND_LIB" => __dir__, "OUTBOUND_GEM" => GEM, "OUTBOUND_H2" => upstream.url("h2"), "OUTBOUND_H1" => upstream.url("h1"),
                      "OUTBOUND_CERTIFICATES" => upstream.certificates, "SSL_CERT_FILE" => upstream.certificates }
      super(served(workers, threads), App.new(name: :outbound, directory: folder, environment: environment), processes, work, "/")
    end

    # Where processes that are not the application's find the front.
    def egress = File.join(@app.directory, "tmp/paceline-egress.sock")

    def command = [*@place.for_callers, *super]

    # A request for the page, over a connection of its own.
    def page(way)
      began = now
      answer = ask("/page?#{way.caller},#{way.server}")
      Page.new(now - began, answer)
    end

    # Restarts the workers, and waits until one of the new generation answers.
    def renew_workers
      before = ask("/")["pid"]
      Process.kill("USR1", @pid)
      limit = now + RESTART_LIMIT
      while ask("/")["pid"] == before
        raise Failed, "#{RESTART_LIMIT} s without a new worker\n#{last_words}" if now > limit

        sleep 0.05
      end
    end

    # Milliseconds of processor time that the front has used: that of all its threads, by the nanosecond.
    def front_cpu_ms
      Dir["/proc/#{@pid}/task/*/schedstat"].sum { |path| File.read(path).to_i } / 1e6
    end

    private

    def served(workers, threads)
      Server.new(
        name: "paceline", worker: /\Apaceline worker/, workers: workers, threads: threads,
        command: lambda do |_port, work|
          [Servers.paceline, "-C", "-", "-b", "unix://#{work}/http.sock", "-e", "production", "-w", workers, "-t", threads, "-q", *Servers::AS_ROOT]
        end
      )
    end

    def ask(path)
      UNIXSocket.open(File.join(@work, "http.sock")) do |socket|
        socket.write("GET #{path} HTTP/1.1\r\nHost: bench.test\r\nConnection: close\r\n\r\n")
        head, body = socket.read.split("\r\n\r\n", 2)
        raise Failed, "#{path}: #{head.to_s.lines.first}\n#{body}" unless head.to_s.start_with?("HTTP/1.1 200")

        JSON.parse(body)
      end
    end

    def answers?
      ask(@ready)
      true
    rescue SystemCallError, IOError, Failed
      false
    end
  end
end
