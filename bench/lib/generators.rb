# frozen_string_literal: true

# The load generators that `bin/bench serve` knows: ours (crates/bench), and those with which others measure. Each sends the same requests. Ours compares every
# byte of every answer; of the others all that they tell of their answers is looked at, and a word that is not understood makes their result none.
#
#   generator = Generators.named(%w[wrk]).first
#   generator.load(port: 3000, mix: [[kind, 1.0]], connections: 64, keep_alive: true, seconds: 2).run     # a Load::Result
require "json"
require "tmpdir"
require_relative "load"

module Bench
  # A load by a program that makes its own figures; used as a Load is.
  class ForeignLoad
    # Seconds in which an answer must come.
    LIMIT = 30

    # GENERATOR: a subclass's tool; the rest as Load has it, with one Kind. SECONDS are rounded up: these programs know whole ones.
    def initialize(generator, port:, mix:, connections:, keep_alive:, seconds:, **)
      @generator = generator
      @url = "http://127.0.0.1:#{port}#{mix[0][0].path}"
      @kind = mix[0][0]
      @connections = connections
      @keep_alive = keep_alive
      @seconds = seconds.ceil
    end

    # The pid is given to the block while the generator works, and what is read from it must come back.
    def in_child
      Dir.mktmpdir("load") do |folder|
        before = Process.times
        reading, writing = IO.pipe
        pid = Process.spawn(*Processes.ending_with_us("KILL"), *command(folder), in: File::NULL, %i[out err] => writing)
        writing.close
        text = yield(pid, reading)
        status = Process.waitpid2(pid).last
        after = Process.times
        result(text.scrub, folder, status, after.cutime + after.cstime - before.cutime - before.cstime)
      ensure
        reading&.close
      end
    end

    def run = in_child { |_, output| output.read }

    private

    def command(folder)
      @generator.command(url: @url, connections: @connections, keep_alive: @keep_alive, seconds: @seconds, exact: @kind.exact?, folder: folder).map(&:to_s)
    end

    def result(text, folder, status, own_cpu)
      raise NoResult, "#{@generator.name} ended with #{status.exitstatus || status}: #{text.strip.lines.last&.strip}" unless status.success?

      found = @generator.read(text, folder, @kind)
      Load::Result.new(completed: found.fetch(:completed), timely: found[:completed], seconds: found.fetch(:seconds), p50: found.fetch(:p50), p99: found.fetch(:p99),
                       failures: found.fetch(:failures).select { |_, times| times.positive? }, own_cpu: own_cpu)
    rescue KeyError, TypeError, ArgumentError, JSON::ParserError => e
      raise NoResult, "the output of #{@generator.name} is not understood (#{e.message.lines.first&.strip}): #{text.strip.lines.last&.strip}"
    end
  end

  module Generators
    # The fields that all send, and so the same request.
    HOST = "bench.test"

    # Ours: every answer is compared, and what is under way when the time is over is waited for.
    class Ours
      def name = "ours"
      def program = nil
      def version = nil
      def takes?(*) = true
      def load(**plan) = Load.new(**plan)
      def leaves_requests? = false
    end

    # What is the same for programs of others.
    class Foreign
      def name = self.class.name[/\w+\z/].downcase
      def program = name

      # Requests with a body, of several kinds or at fixed times are made by ours alone.
      def takes?(scenario, shape) = scenario.kinds.size == 1 && scenario.kinds[0].method == "GET" && shape.rate.nil?
      def load(**plan) = ForeignLoad.new(self, **plan)

      # Whether requests are under way at its end that nobody waits for.
      def leaves_requests? = true

      private

      def said(*words) = IO.popen([*words, { err: %i[child out] }], &:read)

      # What TEXT has at PATTERN's group; its absence is an error.
      def must(text, pattern) = text[pattern, 1] || raise(ArgumentError, "no #{pattern.source}")
      def count(text, pattern) = Integer(must(text, pattern))

      # Pairs of what is wrong with the mean length of the contents, and how often. LEAST, MOST: bytes that are right.
      def lengths(mean, least, most, completed)
        completed.zero? || mean.between?(least, most) ? [] : [["answers of #{mean.round} bytes instead of #{least.round}", completed]]
      end
    end

    class Wrk < Foreign
      TIMES = { "us" => 1e-6, "ms" => 1e-3, "s" => 1.0, "m" => 60.0, "h" => 3600.0 }.freeze
      SIZES = { "" => 1, "K" => 1024, "M" => 1024**2, "G" => 1024**3, "T" => 1024**4 }.freeze
      # It counts bytes with the heads, which are no longer than this, and tells three digits of them.
      HEAD = 4096
      ROUNDING = 0.01

      def version = said("wrk", "-v")[/\Awrk (\S+)/, 1]

      def command(url:, connections:, keep_alive:, seconds:, **)
        ["wrk", "-t1", "-c", connections, "-d", "#{seconds}s", "--timeout", "#{ForeignLoad::LIMIT}s", "--latency", "-H", "Host: #{HOST}", *(["-H", "Connection: close"] unless keep_alive), url]
      end

      def read(text, _folder, kind)
        completed = count(text, /^ *(\d+) requests in /)
        errors = text[/^ *Socket errors: (.*)$/, 1].to_s.scan(/(\w+) (\d+)/).map { |what, times| ["wrk: #{what} errors", Integer(times)] }
        wrong = text.match?(/^ *Non-2xx/) ? count(text, /^ *Non-2xx or 3xx responses: (\d+)/) : 0
        bytes = size(must(text, / in \S+, (\S+) read$/)) / [completed, 1].max
        rate = Float(must(text, %r{^Requests/sec: +([\d.]+)$}))
        { completed: completed, seconds: rate.positive? ? completed / rate : 0, p50: time(must(text, /^ +50% +(\S+)$/)), p99: time(must(text, /^ +99% +(\S+)$/)),
          failures: [*errors, ["wrk: non-2xx responses", wrong], *lengths(bytes, kind.length * (1 - ROUNDING), (kind.length * (1.3 + ROUNDING)) + HEAD, completed)] }
      end

      private

      def time(text) = unit(text, TIMES, /\A([\d.]+)(us|ms|s|m|h)\z/)
      def size(text) = unit(text, SIZES, /\A([\d.]+)([KMGT]?)B\z/)

      def unit(text, units, pattern)
        number, unit = text.match(pattern)&.captures
        raise ArgumentError, "no unit in #{text}" unless number

        Float(number) * units.fetch(unit)
      end
    end

    class Ab < Foreign
      # More than it can have answered when the time is over.
      REQUESTS = 10_000_000

      def version = said("ab", "-V")[/Version (\S+)/, 1]

      def command(url:, connections:, keep_alive:, seconds:, exact:, folder:)
        ["ab", "-q", *("-k" if keep_alive), *("-l" unless exact), "-c", connections, "-t", seconds, "-n", REQUESTS, "-s", ForeignLoad::LIMIT, "-e", File.join(folder, "times"), "-H", "Host: #{HOST}", url]
      end

      def read(text, folder, kind)
        completed = count(text, /^Complete requests: +(\d+)$/)
        failures = { "failed requests" => count(text, /^Failed requests: +(\d+)$/), "write errors" => text[/^Write errors: +(\d+)$/, 1].to_i, "non-2xx responses" => text[/^Non-2xx responses: +(\d+)$/, 1].to_i }
        times = File.readlines(File.join(folder, "times"), chomp: true).drop(1).to_h { |line| line.split(",").map { |number| Float(number) } }
        mean = count(text, /^HTML transferred: +(\d+) bytes$/) / [completed, 1].max.to_f
        spread = kind.exact? ? 0.0 : kind.length * 0.05
        # It has read of answers that it does not count, when its time was over.
        { completed: completed, seconds: Float(must(text, /^Time taken for tests: +([\d.]+) seconds$/)), p50: times.fetch(50.0) / 1000, p99: times.fetch(99.0) / 1000,
          failures: [*failures.map { |what, number| ["ab: #{what}", number] }, *document(text, kind, completed), *lengths(mean, kind.length - spread, (kind.length * 1.5) + spread, completed)] }
      end

      private

      # It compares all answers with the length of the first one.
      def document(text, kind, completed)
        return [] unless kind.exact?

        length = count(text, /^Document Length: +(\d+) bytes$/)
        length == kind.length ? [] : [["ab: #{length} bytes instead of #{kind.length}", completed]]
      end
    end

    class Oha < Foreign
      def version = said("oha", "--version")[/oha (\S+)/, 1]

      # It waits for what is under way.
      def leaves_requests? = false

      # It would ask for compressed answers.
      def command(url:, connections:, keep_alive:, seconds:, **)
        ["oha", "--no-tui", "--output-format", "json", "-z", "#{seconds}s", "-w", "-t", "#{ForeignLoad::LIMIT}s", "-c", connections, "-H", "host: #{HOST}", "-H", "accept-encoding: identity",
         *("--disable-keepalive" unless keep_alive), url]
      end

      def read(text, _folder, kind)
        found = JSON.parse(text)
        codes, errors = found.fetch("statusCodeDistribution"), found.fetch("errorDistribution")
        completed = codes.fetch("200", 0)
        spread = kind.exact? ? 0.0 : kind.length * 0.05
        { completed: completed, seconds: Float(found.dig("summary", "total")), p50: found.dig("latencyPercentiles", "p50")&.to_f, p99: found.dig("latencyPercentiles", "p99")&.to_f,
          failures: [*errors.map { |what, times| ["oha: #{what}", times] }, *codes.except("200").map { |code, times| ["oha: status #{code}", times] },
                     *lengths(found.dig("summary", "sizePerRequest").to_f, kind.length - spread - 1, kind.length + spread + 1, completed)] }
      end
    end

    OURS = Ours.new
    ALL = [OURS, Wrk.new, Oha.new, Ab.new].freeze

    module_function

    def named(names)
      names.map { |name| ALL.find { |one| one.name == name } or raise ArgumentError, "no generator #{name}; there are #{ALL.map(&:name).join(", ")}" }
    end

    # The first one whose program is not on PATH.
    def missing(generators)
      generators.find { |one| one.program && ENV["PATH"].split(":").none? { |folder| File.executable?(File.join(folder, one.program)) } }
    end
  end
end
