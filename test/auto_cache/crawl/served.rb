# A real application in a copy of its own behind the real server, with the automatic page cache: started, asked what it has learned, and
# stopped. It judges nothing.
require "fileutils"
require "json"
require "open3"
require_relative "../../e2e/support/asking"

module Crawl
  HERE = File.expand_path("../../..", __dir__)
  SERVER = ENV.fetch("PACELINE_BIN") { File.join(HERE, "bin/paceline") }
  # The gem that fits the server.
  GEM = ENV.fetch("PACELINE_GEM_DIR") { File.join(HERE, "gem") }

  class Served
    CLEAN = %w[RACK_ENV APP_ENV WEB_CONCURRENCY RAILS_MAX_THREADS PORT BUNDLE_GEMFILE RUBYOPT].to_h { |name| [name, nil] }.freeze
    # Seconds until an application has started, on a busy machine.
    PATIENCE = 900

    # Requests of each of two people between looks at how far the routes have come, and after which none is waited for any more. A route needs 300 comparisons; where the
    # application writes now and then, as Redmine does each minute, some of them are lost.
    LOOKED = 25
    TRIED_AT_MOST = 400
    # After so many a route whose pages can't be kept is given up.
    TRIED = 3
    # Stages that nobody need wait for.
    DECIDED = %w[serving off].freeze

    attr_reader :url

    # What the automatic page cache of the server in `dir` says of each route, by its name.
    def self.routes(dir)
      out, status = Open3.capture2e(Asking::OWN, SERVER, "cache", "advise", "--json", chdir: dir)
      raise out unless status.success?

      JSON.parse(out)["sites"].values.flat_map { |site| site["routes"] }.to_h { |route| [route["route"], route] }
    end

    def initialize(dir, workers: 2, rails: "production")
      @dir = dir
      @log = File.join(dir, "log/paceline.log")
      FileUtils.mkdir_p(File.dirname(@log))
      File.write(File.join(dir, "paceline.toml"), "start_timeout = \"#{PATIENCE}s\"\n\n[auto_cache]\nmode = \"serve\"\nverify = \"0%\"\n")
      environment = CLEAN.merge("RAILS_ENV" => rails, "PACELINE_GEM_DIR" => GEM, "XDG_STATE_HOME" => File.join(dir, "tmp/state"),
                                "PACELINE_USER" => ("root" if Process.uid.zero?))
      @pid = Process.spawn(environment, SERVER, "-b", "tcp://127.0.0.1:0", "-w", workers.to_s, "-t", "1", *ENV["FLAGS"].to_s.split, chdir: dir, out: @log, err: @log, in: File::NULL)
      @url = "http://127.0.0.1:#{wait_for(/Listening on http:\/\/\S+:(\d+)/)[1]}"
      wait_for(/ is ready: /)
    rescue StandardError, Interrupt
      stop if @pid
      raise
    end

    def routes = Served.routes(@dir)

    # Two people ask for the pages at the same time, until those that can be shown are shown. Returns these.
    def prove(people, pages)
      before = routes
      TRIED.times { read(people, pages) }
      kept = routes.select { |name, route| route["hits"] > before.dig(name, "hits").to_i }
      pages = pages.select { |path| kept.key?(Served.route(path)) }
      waiting = pages
      TRIED.step(TRIED_AT_MOST, LOOKED) do
        now = routes
        waiting = waiting.reject { |path| DECIDED.include?(now[Served.route(path)]["stage"]) }
        break if waiting.empty?

        LOOKED.times { read(people, waiting) }
      end
      pages
    end

    # The name of a page's route.
    def self.route(path) = "GET #{path.sub(/\?.*/, "").gsub(%r{/\d+(?=/|\z)}, "/*")}"

    def stop
      Process.kill(:TERM, @pid)
      Process.wait(@pid)
    rescue Errno::ESRCH, Errno::ECHILD
      nil # it has ended by itself
    end

    private

    def read(people, pages)
      people.map { |person| Thread.new { pages.each { |path| person.get(path) } } }.each(&:join)
    end

    def wait_for(pattern)
      limit = now + PATIENCE
      until (match = File.read(@log).match(pattern))
        raise "the server never printed #{pattern.inspect}:\n#{File.read(@log)}" if now > limit || Process.wait(@pid, Process::WNOHANG)

        sleep 0.05
      end
      match
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
