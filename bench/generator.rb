# frozen_string_literal: true

# `bin/bench generator`: what a load generator costs for each request: `paceline bench` beside wrk and ab, in turn, on a file that nginx serves.
#
#   bin/bench generator [--rounds N] [--seconds N] [--output DIR]
require "fileutils"
require "json"
require "optparse"
require "socket"
require "tmpdir"
require_relative "lib/arithmetic"
require_relative "lib/kernel_counts"
require_relative "lib/machine"
require_relative "lib/table"

module Bench
  class Generator
    include Table

    LOADS = { "64 connections, keep-alive" => [64, true], "25 connections, new each time" => [25, false] }.freeze
    HEAD = ["load", "generator", "requests/s", "CPU µs", "x wrk", "system calls", "switches"].freeze
    # How each is told connections, seconds, and whether to keep connections; and where its output has the number of answers.
    GENERATORS = {
      "paceline" => [->(url, count, seconds, kept) { [Servers.paceline, "bench", "-q", "--ab", *("-k" if kept), "-c", count, "-t", seconds, url] }, /^Complete requests: +(\d+)/],
      "wrk" => [->(url, count, seconds, kept) { ["wrk", "-t1", "-c", count, "-d", "#{seconds}s", *(["-H", "Connection: close"] unless kept), url] }, /(\d+) requests in/],
      "ab" => [->(url, count, seconds, kept) { ["ab", "-q", *("-k" if kept), "-c", count, "-t", seconds, "-n", 100_000_000, url] }, /^Complete requests: +(\d+)/],
    }.freeze
    CONFIGURATION = <<~NGINX
      worker_processes 1; daemon off; pid WORK/nginx.pid; error_log WORK/nginx.log error;
      events { worker_connections 1024; }
      http { access_log off; keepalive_requests 1000000000; server { listen 127.0.0.1:PORT; location / { return 200 "hello\\n"; } } }
    NGINX
    private_constant :LOADS, :HEAD, :GENERATORS, :CONFIGURATION

    def initialize(arguments)
      @command = ["bin/bench generator", *arguments].join(" ")
      @rounds, @seconds, @output = 5, 2, File.join(Servers::HERE, "bench/results")
      OptionParser.new do |it|
        it.on("--rounds N", Integer) { |number| @rounds = number }
        it.on("--seconds N", Integer) { |number| @seconds = number }
        it.on("--output DIR") { |directory| @output = directory }
      end.parse!(arguments.dup)
    end

    def run
      facts = Machine.facts
      rows = with_server { |url| LOADS.flat_map { |load, (count, kept)| measure(load, url, count, kept) } }
      text = page(facts, rows)
      puts text
      base = File.join(@output, "generator-#{Time.now.utc.strftime("%Y%m%d-%H%M%S")}")
      FileUtils.mkdir_p(@output)
      File.write("#{base}.md", text)
      File.write("#{base}.json", JSON.pretty_generate("command" => @command, "machine" => facts, "versions" => versions, "results" => rows))
      puts "\nWritten to #{base}.md and .json"
    end

    private

    def with_server
      Dir.mktmpdir do |work|
        port = TCPServer.open("127.0.0.1", 0) { |server| server.addr[1] }
        File.write("#{work}/nginx.conf", CONFIGURATION.gsub(/WORK|PORT/, "WORK" => work, "PORT" => port.to_s))
        pid = Process.spawn("/usr/sbin/nginx", "-e", "#{work}/nginx.log", "-p", work, "-c", "#{work}/nginx.conf")
        100.times { answers?(port) ? break : sleep(0.05) }
        yield "http://127.0.0.1:#{port}/"
      ensure
        Process.kill("TERM", pid)
        Process.waitpid(pid)
      end
    end

    def answers?(port)
      TCPSocket.open("127.0.0.1", port, &:close)
      true
    rescue Errno::ECONNREFUSED
      false
    end

    # A row of figures for each generator; they take turns.
    def measure(load, url, count, kept)
      rounds = Array.new(@rounds) { GENERATORS.keys.to_h { |name| [name, timed(name, url, count, kept)] } }
      base = rounds.each_with_index.to_h { |round, i| [i, round["wrk"][:cpu]] }
      GENERATORS.keys.map do |name|
        figures = rounds.map { |round| round[name] }
        cpu = figures.each_with_index.to_h { |figure, i| [i, figure[:cpu]] }
        ratios = Arithmetic.ratios(cpu, base)
        { "load" => load, "generator" => name, "rate" => median(figures, :rate), "cpu" => median(figures, :cpu), "x" => Arithmetic.median(ratios),
          "range" => ratios.minmax, **counted(name, url, count, kept) }
      end
    end

    def median(figures, key) = Arithmetic.median(figures.map { |figure| figure[key] })

    def timed(name, url, count, kept)
      before = Process.times
      requests = answered(name, command(name, url, count, kept))
      after = Process.times
      { rate: requests.to_f / @seconds, cpu: (after.cutime + after.cstime - before.cutime - before.cstime) * 1_000_000 / requests }
    end

    # Of one pass that is not timed.
    def counted(name, url, count, kept)
      return {} if KernelCounts.missing

      Dir.mktmpdir do |work|
        file = File.join(work, "counts")
        requests = answered(name, ["perf", "stat", "-x", ",", "-e", KernelCounts::EVENTS.values.join(","), "-o", file, "--", *command(name, url, count, kept)])
        counts = KernelCounts.parse(File.read(file))
        KernelCounts::EVENTS.to_h { |key, event| [key.to_s, counts[event]&.fdiv(requests)] }
      end
    end

    def command(name, url, count, kept) = GENERATORS.fetch(name)[0].call(url, count, @seconds, kept).map(&:to_s)

    def answered(name, command)
      text = IO.popen([*command, { err: File::NULL }], &:read)
      Integer(text[GENERATORS.fetch(name)[1], 1] || abort("bin/bench generator: #{command.join(" ")} gave no figure:\n#{text}"))
    end

    def versions = Machine.versions(%w[nginx wrk apache2-utils])

    def page(facts, rows)
      cells = rows.map do |row|
        [row["load"], row["generator"], rounded(row["rate"]), format("%.1f", row["cpu"]), spread(row["x"], row["range"]),
         *row.values_at("calls", "switches").map { |figure| figure ? format("%.2f", figure) : "not counted" }]
      end
      <<~TEXT
        # #{@command}

        #{facts["date"]} · #{facts["processors"]} x #{facts["processor"]} · #{@rounds} rounds of #{@seconds} s

        What a load generator costs: medians; processor time, system calls and context switches of the generator for each request. nginx answers with 6 bytes.

        #{align(HEAD, cells, texts: [0, 1])}

        Versions: #{versions.map { |name, version| "#{name} #{version}" }.join(", ")}. Linux #{facts["kernel"]}.
      TEXT
    end
  end
end

Bench::Generator.new(ARGV).run if $PROGRAM_NAME == __FILE__
