# frozen_string_literal: true

# The servers that are compared: how each is started for the application in the current directory. Every one in production
# mode, with the same number of workers, and the application loaded before the fork.
module Bench
  # WORKER tells a worker by its process title, WORKERS how many there must be (Servers::WORKERS); PACKAGE is the Debian package whose
  # version is noted; PROGRAMS must be installed; HIT a header of its answers from a cache, and what its value must be (Caches::HITS);
  # ONLY the scenarios that it takes part in, WITHOUT those that it can't answer.
  # VARIABLE of the environment names what it is run from, and without it the server is left out unless it is asked for.
  Server = Struct.new(:name, :package, :worker, :workers, :programs, :hit, :threads, :only, :without, :note, :command, :variable, :checkout, keyword_init: true) do
    def serves?(scenario)
      (only.nil? || only.include?(scenario)) && !without&.include?(scenario)
    end

    # Whether it takes part when no server is named.
    def by_default? = variable.nil? || (!checkout.nil? && ENV.key?(variable))

    # The first of its programs that is not there.
    def missing
      return (checkout unless File.file?(checkout.sub(variable, ENV.fetch(variable, variable)))) if checkout

      (programs || []).find { |program| [*ENV["PATH"].split(":"), "/usr/sbin"].none? { |folder| File.executable?(File.join(folder, program)) } }
    end
  end

  module Servers
    HERE = File.expand_path("../..", __dir__)
    PEERS = File.join(HERE, "bench/peers")
    # `bin/bench curve` varies it.
    WORKERS = Integer(ENV.fetch("BENCH_WORKERS", 2))
    THREADS = 5
    BASELINE = "puma"
    # Scenarios with bodies that are called (Rack 3), which not every server knows.
    STREAMS = %w[stream_small stream_large].freeze
    # In which they take turns. Fewer make a ratio a first impression, and reports say so.
    ROUNDS = 5

    # The checkout may be root's own, and the peers run it as root without asking.
    AS_ROOT = Process.uid.zero? ? %w[--user root] : []

    class << self
      # Whether Paceline writes its access log, as it does by default; the other servers write none as they are started here.
      attr_accessor :access_log

      def quiet = access_log ? [] : %w[-q]
    end

    def self.paceline
      ENV["PACELINE_BIN"] || File.join(HERE, "target/release/paceline")
    end

    # A program in the target folder of another checkout: it finds the gem beside it.
    def self.before
      ENV.fetch("PACELINE_BEFORE") { abort "bin/bench: set PACELINE_BEFORE to the program that `before` stands for" }
    end

    # A server that is no Debian package, run from a checkout that VARIABLE names and that its own build has prepared. PROGRAM and LIBRARIES are paths in
    # it; the block gives the program's arguments.
    def self.of_checkout(name, program, libraries, threads:, note:, &arguments)
      variable = "PACELINE_#{name.upcase}"
      Server.new(
        name: name, variable: variable, checkout: File.join(variable, program), worker: /#{Regexp.escape(name)}/i, threads: threads, note: "#{note}; the checkout that #{variable} names",
        command: lambda do |port, _|
          folder = ENV.fetch(variable)
          ["ruby", *libraries.flat_map { |library| ["-I", File.join(folder, library)] }, File.join(folder, program), *arguments.call(port)]
        end
      )
    end
    private_class_method :of_checkout

    # Each command is given the port to listen on and a directory of its own for pid files and the like.
    ALL = [
      Server.new(
        name: "paceline", worker: /\Apaceline worker/, threads: THREADS, note: "#{WORKERS} x #{THREADS} threads",
        command: ->(port, _) { [paceline, "-C", "-", "-b", "tcp://127.0.0.1:#{port}", "-e", "production", "-w", WORKERS, "-t", THREADS, *quiet, *AS_ROOT] }
      ),
      # Of Rails' scenarios: the same with one line more in the application.
      Server.new(
        name: "paceline-front", variable: "BENCH_FRONT", worker: /\Apaceline worker/, threads: THREADS, only: %w[rails plain mixed], note: "with config.paceline.front = true",
        command: ->(port, work) { ["env", "BENCH_FRONT=1", *named(%w[paceline]).first.command.call(port, work)] }
      ),
      # Another build, for what a change costs or brings.
      Server.new(
        name: "before", variable: "PACELINE_BEFORE", worker: /\Apaceline worker/, threads: THREADS, note: "the build that PACELINE_BEFORE names, with its own gem",
        command: ->(port, _) { [before, "-C", "-", "-b", "tcp://127.0.0.1:#{port}", "-e", "production", "-w", WORKERS, "-t", THREADS, *quiet, *AS_ROOT] }
      ),
      Server.new(
        name: "puma", package: "puma", programs: %w[puma], worker: /cluster worker/, threads: THREADS, note: "#{WORKERS} x #{THREADS} threads, preloaded",
        command: ->(port, _) { ["puma", "-C", "-", "-b", "tcp://127.0.0.1:#{port}", "-e", "production", "-w", WORKERS, "-t", "#{THREADS}:#{THREADS}", "--preload", "-q"] }
      ),
      Server.new(
        name: "nginx+puma", package: "nginx", programs: %w[nginx puma], worker: /cluster worker/, threads: THREADS, only: %w[upload download],
        note: "2 nginx workers before Puma as above, Unix socket with keep-alive",
        command: ->(port, work) { [File.join(PEERS, "nginx-puma"), port, WORKERS, THREADS, work] }
      ),
      Server.new(
        name: "unicorn", package: "unicorn", programs: %w[unicorn], worker: /unicorn worker\[/, threads: 1, without: STREAMS, note: "#{WORKERS} processes, preloaded; knows no keep-alive",
        command: ->(port, _) { ["unicorn", "-c", File.join(PEERS, "unicorn.rb"), "-l", "127.0.0.1:#{port}", "-E", "production", "--no-default-middleware"] }
      ),
      Server.new(
        name: "thin", package: "thin", programs: %w[thin], worker: /\Aforked worker/, threads: 1, note: "#{WORKERS} processes on one socket, preloaded (bench/peers/forked.rb)",
        command: ->(port, _) { ["ruby", File.join(PEERS, "forked.rb"), "thin", port, WORKERS] }
      ),
      Server.new(
        name: "passenger", package: "passenger", programs: %w[passenger], worker: /Passenger RubyApp/, threads: 1, note: "standalone, builtin engine, pool of #{WORKERS}, smart spawning",
        command: lambda do |port, work|
          [File.join(PEERS, "passenger"), "start", "--ruby", RbConfig.ruby, "--engine", "builtin", "-a", "127.0.0.1", "-p", port, "-e", "production", "--max-pool-size", WORKERS,
           "--min-instances", WORKERS, "--max-request-queue-size", 1000, "--disable-security-update-check", "--disable-anonymous-telemetry",
           "--log-file", "#{work}/passenger.log", "--pid-file", "#{work}/passenger.pid"]
        end
      ),
      Server.new(
        name: "webrick", package: "ruby-webrick", worker: /\Aforked worker/, threads: 100,
        note: "#{WORKERS} processes on one socket, a thread for each connection, preloaded (bench/peers/forked.rb)",
        command: ->(port, _) { ["ruby", File.join(PEERS, "forked.rb"), "webrick", port, WORKERS] }
      ),
      of_checkout("iodine", "exe/iodine", %w[lib], threads: THREADS, note: "#{WORKERS} x #{THREADS} threads") do |port|
        ["-b", "127.0.0.1", "-p", port, "-w", WORKERS, "-t", THREADS]
      end,
      of_checkout("itsi", "gems/server/exe/itsi", %w[gems/server/lib gems/scheduler/lib], threads: THREADS, note: "#{WORKERS} x #{THREADS} threads, preloaded") do |port|
        ["-b", "http://127.0.0.1:#{port}", "-w", WORKERS, "-t", THREADS, "--preload", "true", "-r", "config.ru"]
      end,
      of_checkout("falcon", "bin/falcon", %w[lib], threads: 1, note: "#{WORKERS} processes, a fiber for each request") do |port|
        ["serve", "--bind", "http://127.0.0.1:#{port}", "--forked", "-n", WORKERS, "-c", "config.ru"]
      end
    ].freeze

    def self.named(names)
      names.map { |name| ALL.find { |server| server.name == name } or raise ArgumentError, "no server #{name}; there are #{ALL.map(&:name).join(", ")}" }
    end
  end
end
