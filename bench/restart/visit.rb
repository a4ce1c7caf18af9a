# frozen_string_literal: true

# One way to restart: a server is started, loaded, restarted again and again and stopped; what its clients saw is divided into
# the windows of restarts and the quiet between them.
require_relative "../lib/arithmetic"
require_relative "app"
require_relative "capistrano_app"
require_relative "server"
require_relative "steady_load"

module Bench
  class RestartVisit
    # Seconds: without a restart, before and after; until a new version must have answered; between two looks at memory.
    QUIET = 4
    LIMIT = 120
    LOOK = 0.25
    # Versions settle when no other answered for so long. A window ends so long after the last answer that was not the new version's.
    SETTLED = 0.8
    MARGIN = 0.25

    # Seconds each, of `requests` that are not failures.
    Times = Struct.new(:requests, :p50, :p99, :max)
    # `switched`: seconds from being told to the new version's first answer, for each restart that came to that. Memory in bytes: private dirty, and
    # proportional shares.
    # `failures`: how often what went wrong, over kept and over new connections. `failed_quiet`: outside any window.
    Seen = Struct.new(:way, :title, :server, :note, :restarts, :switched, :failures, :failed_kept, :failed_new, :failed_quiet, :first_failures, :closed_idle,
                      :quiet, :during, :memory_before, :memory_peak, :statuses, :elsewhere, keyword_init: true)

    def initialize(way, processes, options, &told)
      @way = way
      @processes = processes
      @options = options
      @told = told
      @app = app
      @server = RestartedServer.new(way.server, @app, processes, File.join(Apps::WORK, "restart-servers", way.name), "/")
    end

    def run
      @told.call("starts", false)
      @server.start
      @load = SteadyLoad.new(port: @server.port, clients: @options.clients, think: @options.think_ms / 1000.0).start
      @processes.own(@load.pid, *@app.pids) { restart_under_load }
      busy = Processes.machine_busy - @busy
      result = @load.stop
      seen(result, [busy - @cpu - result.own_cpu, 0].max / @wall)
    ensure
      @looking&.kill&.join
      @load&.kill
      @server.stop
      @app.close
    end

    # What of REQUESTS fell into one of WINDOWS (pairs of times), and what did not.
    def self.divide(requests, windows)
      requests.partition { |request| windows.any? { |began, ended| request.ended >= began && request.began <= ended } }
    end

    def self.times(requests)
      taken = requests.reject(&:failure).map { |request| request.ended - request.began }
      Times.new(taken.size, Arithmetic.percentile(taken, 50), Arithmetic.percentile(taken, 99), taken.max)
    end

    # When the restart to VERSION, of which the server was told at BEGAN, was over for its clients.
    def self.window(requests, began, version, at_least)
      later = requests.reject(&:failure).select { |request| request.ended >= began }
      first = later.find { |request| request.version >= version }&.ended
      old = first && later.select { |request| request.version < version && request.began < first + LIMIT }.map(&:ended).max
      [began, [*first, *old, at_least].max + MARGIN]
    end

    private

    def app
      times = { boot_ms: @options.boot_ms, work_ms: @options.work_ms }
      @way.releases == :capistrano ? CapistranoApp.new(@way.name, **times) : RestartApp.new(@way.name, releases: @way.releases, **times)
    end

    def restart_under_load
      busy, @wall = Processes.machine_busy, now
      before = @processes.tree
      sleep QUIET
      @memory = @memory_before = @server.sizes
      @looking = Thread.new { loop { sleep(LOOK).then { @memory = @memory.zip(@server.sizes).map(&:max) } } }
      @restarts = []
      @statuses = []
      count = @way.good? ? @options.restarts : (@way.paceline? ? @options.failing : 1)
      count.times { |nth| once(nth + 1, count) }
      sleep QUIET / 2.0
      @cpu, @wall, @busy = Processes.cpu_seconds(before, @processes.tree), now - @wall, busy
    end

    def once(nth, count)
      @app.deploy(@way.mode)
      began = now
      @way.tell.call(@server, @app)
      answered = %w[ok slow].include?(@way.mode) ? wait_for(@app.version) : sleep((@options.boot_ms / 500.0) + 5)
      @restarts << [began, @app.version, answered ? began : now]
      @statuses << @server.command_status if @server.command_status
      @told.call("restart #{nth} of #{count}#{" never came to an end" unless answered}", true)
    end

    # True when no other version than this one answers any more.
    def wait_for(version)
      limit = now + LIMIT
      last = nil
      while now < limit
        ready = @load.versions.wait_readable(SETTLED)
        return true if ready.nil? && last == version

        last = @load.versions.gets.to_i if ready
      end
      false
    end

    def seen(result, elsewhere)
      requests = result.requests
      windows = @restarts.map { |began, version, at_least| self.class.window(requests, began, version, at_least) }
      during, quiet = self.class.divide(requests, windows)
      failed = requests.select(&:failure)
      switched = @restarts.filter_map do |began, version, _|
        first = requests.find { |request| request.failure.nil? && request.version >= version && request.ended >= began }
        first.ended - began if first
      end
      first_failures = failed.first(20).map do |request|
        nearest = @restarts.map(&:first).reject { |began| began > request.ended }.last
        { seconds_after_told: nearest && (request.ended - nearest).round(3), took: (request.ended - request.began).round(3), kept: request.kept, what: request.failure }
      end
      Seen.new(way: @way.name, title: @way.title, server: @way.server.name, note: @way.server.note, restarts: @restarts.size, switched: switched,
               failures: failed.map(&:failure).tally, failed_kept: failed.count(&:kept), failed_new: failed.count { |request| !request.kept },
               failed_quiet: quiet.count(&:failure), first_failures: first_failures, closed_idle: result.closed_idle,
               quiet: self.class.times(quiet), during: self.class.times(during), memory_before: @memory_before, memory_peak: @memory,
               statuses: @statuses.tally, elsewhere: elsewhere)
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
