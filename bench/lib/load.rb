# frozen_string_literal: true

# A load, made by crates/bench in a process of its own, every response checked. After the time is over it sends nothing more and waits for what is
# under way, so the server's work and the answers counted are the same; the rate is that of the answers within the time. Latencies include connecting.
require "json"
require "tmpdir"
require_relative "kind"
require_relative "loadgen"
require_relative "measurement"

module Bench
  class Load
    # COMPLETED: right answers, also those that came after the time; TIMELY: those within SECONDS. LATENCIES: seconds by the names of kinds, or nil, and
    # P50 and P99 instead.
    Result = Struct.new(:completed, :timely, :seconds, :failures, :latencies, :p50, :p99, :cookies, :own_cpu, keyword_init: true)
    MICRO = 1e6

    # MIX: pairs of a Kind and its share of the requests. COUNT ends the run after so many requests instead of SECONDS. With RATE
    # requests are sent at fixed times (open loop), however long the answers take. HIT: a header's name and what its value must be (see Caches).
    # KEYS: { random: N } puts one of N keys behind the path of each request, { each: N } asks for each of them once, instead of for SECONDS.
    # FIELDS: more header fields. COOKIES: of visitors, who take turns. PERCENTILES: two of them instead of all latencies.
    def initialize(port:, mix:, keep_alive:, connections: nil, seconds: nil, count: nil, rate: nil, seed: 1, hit: nil, keys: nil, fields: [], cookies: nil, percentiles: false)
      @mix = mix
      @hit = hit
      @fields = fields
      @plan = { port: port, connections: connections || 0, keep_alive: keep_alive, seconds: seconds, count: count, rate: rate, seed: seed, keys: keys,
                visitors: cookies, percentiles: percentiles }
    end

    # The pid is given to the block while the generator works, and what is read from it must come back.
    def in_child
      Dir.mktmpdir("load") do |folder|
        before = Process.times
        pid, output = start(File.join(folder, "plan"), @plan.merge(kinds: @mix.map { |kind, share| planned(kind, share, folder) }))
        text = yield(pid, output)
        Process.waitpid(pid)
        after = Process.times
        result(text, after.cutime + after.cstime - before.cutime - before.cstime)
      ensure
        output&.close
      end
    end

    def run = in_child { |_, output| output.read }

    private

    def start(file, plan)
      File.write(file, JSON.generate(plan))
      reading, writing = IO.pipe
      pid = Process.spawn(*Processes.ending_with_us("KILL"), Loadgen.program, "load", in: file, %i[out err] => writing)
      writing.close
      [pid, reading]
    end

    def planned(kind, share, folder)
      { name: kind.name, share: share, method: kind.method, path: kind.path, fields: @fields, hit: @hit,
        body: (file(folder, "#{kind.name}.sent", kind.body) if kind.body),
        expected: (file(folder, "#{kind.name}.expected", kind.pieces.join) if kind.pieces),
        pieces: (kind.pieces.map(&:bytesize) if kind.pieces && !kind.exact?), any: kind.check == :status }
    end

    def file(folder, name, content) = File.join(folder, name).tap { |path| File.binwrite(path, content) }

    def result(text, own_cpu)
      found = JSON.parse(text, symbolize_names: true)
      latencies = found[:latencies]&.to_h { |name, micros| [name.to_s, micros.map { |time| time / MICRO }] }
      Result.new(**found.slice(:completed, :timely, :seconds, :failures, :cookies), latencies: latencies, p50: seconds(found[:p50]), p99: seconds(found[:p99]), own_cpu: own_cpu)
    rescue JSON::ParserError
      raise NoResult, "the load generator gave no result: #{text.strip.lines.last}"
    end

    def seconds(micros) = micros && micros / MICRO
  end
end
