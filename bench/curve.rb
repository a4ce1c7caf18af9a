# frozen_string_literal: true

# `bin/bench curve`: whether a request's cost grows with the workers and with the connections: the Rack hello of `bin/bench serve`,
# keep-alive, for each number of workers, on Paceline and Puma.
#
#   bin/bench curve [--workers 1,2,4] [--connections 10,100,1000] [--rounds N] [--seconds N] [--output DIR]
require "fileutils"
require "json"
require "optparse"
require "tmpdir"

module Bench
  class Curve
    HERE = File.expand_path("..", __dir__)

    def initialize(arguments)
      @command = ["bin/bench curve", *arguments].join(" ")
      @workers, @connections, @rounds, @seconds, @output = [1, 2, 4], "10,100,1000", 2, 2, File.join(HERE, "bench/results")
      OptionParser.new do |it|
        it.on("--workers N,N", Array) { |list| @workers = list.map { |number| Integer(number) } }
        it.on("--connections N,N") { |list| @connections = list }
        it.on("--rounds N", Integer) { |number| @rounds = number }
        it.on("--seconds N", Float) { |number| @seconds = number }
        it.on("--output DIR") { |directory| @output = directory }
      end.parse!(arguments.dup)
    end

    def run
      results = @workers.map { |number| [number, measure(number)] }
      text = page(results)
      puts text
      base = File.join(@output, "curve-#{Time.now.utc.strftime("%Y%m%d-%H%M%S")}")
      FileUtils.mkdir_p(@output)
      File.write("#{base}.md", text)
      File.write("#{base}.json", JSON.pretty_generate("command" => @command, "workers" => results.to_h))
      puts "\nWritten to #{base}.md and .json"
    end

    private

    # What `bin/bench serve` found with so many workers.
    def measure(workers)
      Dir.mktmpdir do |dir|
        system({ "BENCH_WORKERS" => workers.to_s }, "ruby", File.join(__dir__, "serve.rb"), "--servers", "paceline,puma", "--connections", @connections,
               "--rounds", @rounds.to_s, "--seconds", @seconds.to_s, "--output", dir, "hello", out: File::NULL) or abort "bin/bench curve: the measurement failed"
        JSON.parse(File.read(Dir[File.join(dir, "*.json")].fetch(0)))
      end
    end

    def page(results)
      first = results[0][1]
      machine = first["machine"]
      lines = ["# #{@command}", "", "#{machine["date"]} · #{machine["processors"]} x #{machine["processor"]} · #{@rounds} rounds of #{@seconds} s", "",
               "Rack hello, keep-alive; medians. CPU: µs a request in all of the server's processes.", "",
               "| workers | connections | server | requests/s | p50 ms | p99 ms | CPU µs |", "|--:|--:|---|--:|--:|--:|--:|"]
      results.each do |workers, result|
        result["results"].select { |row| row["key"].end_with?("k") }.each do |row|
          row["servers"].each { |server| lines << line(workers, row["load"][/\d+/], server) }
        end
      end
      "#{lines.join("\n")}\n\nVersions: #{first["versions"].map { |name, version| "#{name} #{version}" }.join(", ")}. #{machine["ruby"]}, Linux #{machine["kernel"]}.\n"
    end

    def line(workers, connections, server)
      return "| #{[workers, connections, server["server"], "no figure: #{server["wrong"]}", "-", "-", "-"].join(" | ")} |" if server["wrong"]

      figures = [["%d", server["rate"]], ["%.2f", server["p50"]&.*(1000)], ["%.2f", server["p99"]&.*(1000)], ["%.1f", server["cpu"]]]
      figures = figures.map { |how, figure| figure ? format(how, figure) : "not reported" }
      "| #{[workers, connections, server["server"], *figures].join(" | ")} |"
    end
  end
end

Bench::Curve.new(ARGV).run if $PROGRAM_NAME == __FILE__
