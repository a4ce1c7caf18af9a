# frozen_string_literal: true

# `bin/bench tuning`: what settings of Paceline do to memory and CPU time. Each ARGUMENT is one way to serve: flags of
# Paceline, with variables before them, or `puma`. They are served one after another, each after the same requests. A way that gives a wrong answer
# gets no figures.
#
#   bin/bench tuning --app redmine --requests 3000 -- puma "" "--gc app --malloc-arenas 0" "--warm-up / --warm-up /issues/1"
#   bin/bench tuning --app brewery --rate 10 -- "--oob-gc=false" "--oob-gc=true"
#   bin/bench tuning -- "RUBY_GC_HEAP_GROWTH_FACTOR=1.25 --oob-gc=false"
require "json"
require "net/http"
require "optparse"
require "socket"
require "tmpdir"
require_relative "lib/apps"
require_relative "lib/processes"
require_relative "lib/servers"

module Bench
  class Tuning
    PATHS = {
      redmine: %w[/ /projects/brewhouse/issues /projects /issues/1 /projects/brewhouse /login /projects/brewhouse/activity /search?q=hop],
      brewery: %w[/beers /beers/1 /breweries /beers/2 /],
      xml: %w[/documents/feed.xml]
    }.freeze
    MB = 1024.0 * 1024
    PATIENCE = 120
    # Pages differ by their tokens and times; by more they are others.
    VARIES = 0.2

    class Wrong < StandardError; end

    def initialize(app, requests, rate, workers)
      @app = Apps.prepare(app)
      @paths = PATHS.fetch(app)
      @requests = requests
      @rate = rate
      @workers = workers
      @processes = Processes.new
      @processes.adopt_orphans
      @lengths = {}
    end

    def measure(way)
      Dir.mktmpdir do |dir|
        began = now
        log = File.join(dir, "access.json")
        port = TCPServer.open("127.0.0.1", 0) { |server| server.addr[1] }
        pid = start(way, port, log)
        sleep 0.02 until answers?(port) || now - began > PATIENCE
        raise Wrong, "#{PATIENCE} s without an answer of 200 from #{@paths.first}" unless answers?(port)

        boot = now - began
        cpu = cpu_seconds
        seconds = load(port)
        report(way, boot: boot, cpu_ms: (cpu_seconds - cpu) * 1000 / @requests, rate: @requests / seconds, collecting: collecting(log))
      rescue Wrong, SystemCallError, IOError, Timeout::Error => e
        puts format("%-60s no figure: %s", title(way), e.message)
      ensure
        finish(pid) if pid
      end
    end

    # What is wrong with an answer of so many BYTES, where the path's first one had USUAL.
    def self.wrong(status, bytes, usual)
      return "status #{status}" unless status == 200
      return "an empty page" if bytes.zero?

      "#{bytes} bytes instead of about #{usual}" if (bytes - usual).abs > usual * VARIES
    end

    private

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    def start(way, port, log)
      words = way.split
      env = words.take_while { |word| word.include?("=") && !word.start_with?("-") }.to_h { |word| word.split("=", 2) }
      bind = ["-C", "-", "-b", "tcp://127.0.0.1:#{port}", "-e", "production", "-w", @workers.to_s]
      command =
        if words.first == "puma" then ["puma", *bind, "-t", "5:5", "--preload", "-q"]
        else [Servers.paceline, *bind, "-t", "5", *Servers::AS_ROOT, "--access-log-format", "json", "--access-log", log, *words.drop(env.size)]
        end
      Process.spawn(env.merge("RAILS_ENV" => "production"), *command, chdir: @app.directory, out: File::NULL, err: File::NULL, pgroup: true)
    end

    def answers?(port)
      Net::HTTP.get_response("127.0.0.1", @paths.first, port).code == "200"
    rescue SystemCallError
      false
    end

    # Ten clients; with a rate, requests at fixed times.
    def load(port)
      lock, sent, began = Mutex.new, -1, now
      Array.new(10) do
        Thread.new do
          Thread.current.report_on_exception = false
          Net::HTTP.start("127.0.0.1", port) do |http|
            while (number = lock.synchronize { sent += 1 }) < @requests
              wait = @rate ? began + (number / @rate) - now : 0
              sleep wait if wait.positive?
              path = @paths[number % @paths.size]
              answer = http.get(path)
              bytes = answer.body.to_s.bytesize
              wrong = self.class.wrong(answer.code.to_i, bytes, @lengths[path] ||= bytes)
              raise Wrong, "#{path}: #{wrong}" if wrong
            end
          end
        end
      end.each(&:join)
      now - began
    end

    def title(way) = way.empty? ? "(defaults)" : way

    def cpu_seconds = @processes.tree.values.sum(&:ticks) / Processes::TICKS

    def report(way, boot:, cpu_ms:, rate:, collecting:)
      workers, others = @processes.tree.keys.partition { |pid| @processes.title(pid).match?(/\Apaceline worker|cluster worker/) }
      own, shares = workers.map { |pid| @processes.memory(pid) }, others.sum { |pid| @processes.memory(pid).proportional }
      puts format("%-60s worker %6.1f MB private dirty, all %6.1f MB, %6.2f ms CPU a request, %5.1f requests/s, boot %.1f s%s",
                  title(way), own.sum(&:private_dirty) / MB / own.size, (shares + own.sum(&:proportional)) / MB, cpu_ms, rate, boot, collecting)
    end

    # What of Ruby's collections fell into requests.
    def collecting(log)
      times = File.exist?(log) ? File.readlines(log).map { |line| JSON.parse(line)["gc_ms"].to_f } : []
      return "" if times.empty?
      format(", GC in a request %.2f ms, in %d %% of them", times.sum / times.size, 100.0 * times.count(&:positive?) / times.size)
    end

    def finish(pid)
      Process.kill(:TERM, pid)
      Process.wait(pid)
    rescue SystemCallError
      nil
    end
  end
end

if $PROGRAM_NAME == __FILE__
  app, requests, rate, workers, rounds = :redmine, 1000, nil, 2, 1
  OptionParser.new do |it|
    it.banner = "Usage: bin/bench tuning [options] -- WAY ...   (WAY: flags of Paceline, variables before them; or puma)"
    it.on("--app NAME", %w[redmine brewery xml]) { |name| app = name.to_sym }
    it.on("--requests N", Integer, "Before memory is read (1000)") { |n| requests = n }
    it.on("--rate N", Float, "Requests a second at fixed times, instead of ten clients that wait for each answer") { |n| rate = n }
    it.on("--workers N", Integer, "(2)") { |n| workers = n }
    it.on("--rounds N", Integer, "A B A B (1)") { |n| rounds = n }
  end.parse!
  bench = Bench::Tuning.new(app, requests, rate, workers)
  rounds.times { (ARGV.empty? ? ["puma", ""] : ARGV).each { |way| bench.measure(way) } }
end
