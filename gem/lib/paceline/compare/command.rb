# frozen_string_literal: true

require "json"
require "optparse"
require "tmpdir"
require_relative "../front_binary"
require_relative "comparison"
require_relative "progress"
require_relative "report"
require_relative "ruby_choice"

module Paceline
  # `paceline compare DIR_A DIR_B`: two versions of an application, started by Paceline with the same settings and measured in turn.
  #
  #     paceline compare shop-old shop-new
  #     paceline compare --path /beers,/beers/7 --cookies shop-old shop-new
  #     paceline compare --ruby-b /opt/ruby-3.4/bin/ruby . .
  module Compare
    # The command line: understands it, runs the comparison, prints the result, and stops what was started however it ends.
    module Command
      USAGE = "Usage: paceline compare [options] DIR_A DIR_B [-- SERVER_FLAGS]"
      MEASURED = 0
      FAILED = 1
      MISUNDERSTOOD = 64
      INTERRUPTED = 130
      # Rounds: fewer say nothing of chance.
      ROUNDS = (Ratio::LEAST..100).freeze
      HEADER = /\A([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\0]*)\z/
      private_constant :USAGE, :MEASURED, :FAILED, :MISUNDERSTOOD, :INTERRUPTED, :ROUNDS, :HEADER

      # PATHS to HEADERS are the same for both; HEADERS: [name, value] of each. RUBIES: of A and B, nil if their folders say which.
      Settings = Struct.new(:dirs, :rubies, :paths, :rounds, :time, :clients, :requests, :workers, :threads, :environment, :cookies, :headers, :json, :quiet, :server_flags, keyword_init: true)

      module_function

      # Runs it, and returns the exit status: 0 measured, 1 one of them failed, 64 not understood, 130 interrupted.
      def run(arguments, out: $stdout, err: $stderr)
        settings = settings(arguments, out) or return MEASURED
        program = FrontBinary.find
        result = interruptible { Dir.mktmpdir("paceline-compare") { |folder| compare(settings, program, folder, err) } }
        out.puts(settings.json ? JSON.pretty_generate(result) : Report.new(result).text)
        MEASURED
      rescue OptionParser::ParseError => e
        err.puts("paceline: #{e.message}", USAGE)
        MISUNDERSTOOD
      rescue Interrupt
        err.puts("", "paceline: interrupted; both versions are stopped")
        INTERRUPTED
      rescue FrontBinary::Missing, Failed, SystemCallError => e
        err.puts("paceline: #{e.message.gsub(/[^[:print:]\n\t]/, "\u{fffd}")}")
        FAILED
      end

      def compare(settings, program, folder, err)
        sides = settings.dirs.zip(settings.rubies, %w[A B]).map do |dir, ruby, name|
          own = File.join(folder, name)
          Dir.mkdir(own)
          Side.new(name, dir, RubyChoice.new(dir, ruby), settings, program, own)
        end
        comparison = Comparison.new(settings, sides, program)
        progress = Progress.new(settings.quiet ? nil : err, comparison.steps)
        comparison.run(progress)
      ensure
        progress&.clear
        stop(sides)
      end

      # What comes from the terminal meanwhile must not leave one of them running.
      def stop(sides)
        signals = %w[INT TERM HUP].to_h { |name| [name, trap(name) { nil }] }
        Array(sides).each(&:stop)
      ensure
        signals.each { |name, handler| trap(name, handler || "DEFAULT") }
      end

      # Signals that end a program end this one as Ctrl-C does: with what it has started.
      def interruptible
        before = %w[INT TERM HUP].to_h { |name| [name, trap(name) { raise Interrupt }] }
        yield
      ensure
        before.each { |name, handler| trap(name, handler || "DEFAULT") }
      end

      # Nil if only the help was wanted.
      def settings(arguments, out)
        arguments, flags = split(arguments)
        settings = Settings.new(rubies: [nil, nil], paths: [], rounds: 7, time: 2.0, clients: 4, requests: 3000, workers: 2, threads: 3, environment: environment, cookies: false, headers: [], json: false,
                                quiet: false, server_flags: flags)
        parser = parser(settings) { return out.puts(help(parser)) }
        settings.dirs = parser.parse(arguments).map { |dir| File.expand_path(dir) }
        raise OptionParser::MissingArgument, "DIR_A and DIR_B: the folders of two versions" unless settings.dirs.size == 2
        settings.dirs.each { |dir| raise OptionParser::InvalidArgument, "#{dir}: no such directory" unless File.directory?(dir) }
        settings.paths = ["/"] if settings.paths.empty?
        settings
      end

      # What stands behind -- is for the servers.
      def split(arguments)
        at = arguments.index("--") or return [arguments, []]
        [arguments.take(at), arguments.drop(at + 1)]
      end

      def environment
        %w[RAILS_ENV RACK_ENV APP_ENV].filter_map { |name| ENV[name] }.find { |value| !value.empty? } || "production"
      end

      def parser(settings, &help)
        OptionParser.new(USAGE) do |it|
          it.on("--path PATHS", "Pages, like /beers,/beers/7; may be repeated [default: /]") { |text| settings.paths |= paths(text) }
          it.on("--rounds N", Integer, "Rounds, #{ROUNDS.min} to #{ROUNDS.max} [default: #{settings.rounds}]") { |number| settings.rounds = within(ROUNDS, number) }
          it.on("--time SECONDS", Float, "Of each measurement [default: 2]") { |seconds| settings.time = within(0.1..600.0, seconds) }
          it.on("-c", "--clients N", Integer, "Clients [default: #{settings.clients}]") { |number| settings.clients = within(1..1000, number) }
          it.on("--requests N", Integer, "Requests before memory is read again [default: #{settings.requests}]") { |number| settings.requests = within(1..1_000_000, number) }
          it.on("-w", "--workers N", Integer, "Workers of each version [default: #{settings.workers}]") { |number| settings.workers = within(1..64, number) }
          it.on("-t", "--threads N", Integer, "Threads of each worker [default: #{settings.threads}]") { |number| settings.threads = within(1..64, number) }
          it.on("-e", "--environment NAME", "RAILS_ENV, RACK_ENV and APP_ENV [default: the terminal's, else production]") { |name| settings.environment = name }
          it.on("--cookies", "Send the cookies that the first answer set, as a visitor with a session does") { settings.cookies = true }
          it.on("-H", "--header FIELD", "A header field, like \"X-Forwarded-Proto: https\"; may be repeated") { |text| settings.headers << header(text) }
          it.on("--ruby-a RUBY", "The Ruby of A [default: what its folder names, else ruby]") { |ruby| settings.rubies[0] = ruby }
          it.on("--ruby-b RUBY", "The Ruby of B") { |ruby| settings.rubies[1] = ruby }
          it.on("--json", "Print the result as JSON") { settings.json = true }
          it.on("-q", "--quiet", "Show no progress") { settings.quiet = true }
          it.on("-h", "--help", "Print help", &help)
        end
      end

      def within(range, number)
        range.cover?(number) ? number : raise(OptionParser::InvalidArgument, "#{number}: #{range.min} to #{range.max}")
      end

      def paths(text)
        paths = text.split(",")
        wrong = paths.find { |path| !path.match?(%r{\A/[[:graph:]]*\z}) }
        raise OptionParser::InvalidArgument, "#{wrong || text.inspect}: a path begins with /" if wrong || paths.empty?
        paths
      end

      def header(text)
        text.match(HEADER)&.captures or raise OptionParser::InvalidArgument, "#{text}: write NAME: VALUE"
      end

      def help(parser)
        <<~TEXT
          Measures two versions of an application beside each other: two checkouts, two Rails, two Rubies

          #{parser.help}
          Both are started with the same settings on free ports of 127.0.0.1, and get the same GET requests in turn. The result: requests/s, latencies, CPU and
          context switches a request, private memory and Ruby heap slots, and which differences are more than chance. What stands behind -- is given to both servers,
          like -- --yjit off. docs/compare.md explains each figure.

          Exit status: 0 measured, 1 a version does not start or does not answer (with its own error), 64 the command line is wrong, 130 interrupted.
        TEXT
      end
    end
  end
end

exit(Paceline::Compare::Command.run(ARGV)) if $PROGRAM_NAME == __FILE__
