# frozen_string_literal: true

require "optparse"
require "tmpdir"
require_relative "../front_binary"
require_relative "screen"
require_relative "served"
require_relative "steps"

module Paceline
  # `paceline tour`: what Paceline does for one application, in five steps in the terminal. Each shows a command, runs it and
  # explains one figure. The application's files are not changed.
  #
  #     cd my-app
  #     paceline tour
  #     paceline tour --path /beers --yes      # another page; no questions
  module Tour
    module Command
      USAGE = "Usage: paceline tour [--path PATH] [--dir DIR] [--step N] [--yes]"
      private_constant :USAGE

      Wish = Struct.new(:path, :dir, :steps, :yes)

      module_function

      # Runs it, and returns the exit status: 0, 1 if a step failed, 2 if it was not understood.
      def run(arguments, out: $stdout, err: $stderr, keys: $stdin)
        wish = wish(arguments, out) or return 0
        program = FrontBinary.find
        screen = Screen.new(out, wish.yes || !keys.tty? ? nil : keys)
        Dir.mktmpdir("paceline-tour") { |folder| walk(screen, Served.new(program, wish.dir, folder), wish) }
        0
      rescue OptionParser::ParseError => e
        err.puts("paceline: #{e.message}", USAGE)
        2
      rescue Stopped
        out.puts
        0
      rescue FrontBinary::Missing, Served::Failed, SystemCallError => e
        err.puts("paceline: #{e.message}")
        1
      end

      # Nil if only the help was wanted.
      def wish(arguments, out)
        wish = Wish.new("/", Dir.pwd, STEPS.each_index.map(&:succ), false)
        parser = OptionParser.new(USAGE) do |options|
          options.on("--path PATH", "The page to look at [default: /]") { |path| wish.path = path }
          options.on("--dir DIR", "The application's directory, instead of the current one") { |dir| wish.dir = File.expand_path(dir) }
          options.on("--step N", Integer, "Only this step") { |number| wish.steps = [number] }
          options.on("-y", "--yes", "Go on without a key; so it is without a terminal, too") { wish.yes = true }
          options.on("-h", "--help", "Print help") { wish = nil }
        end
        rest = parser.parse(arguments)
        raise OptionParser::InvalidArgument, rest.first if rest.any?
        raise OptionParser::InvalidArgument, "--step #{wish.steps.first}: 1 to #{STEPS.size}" unless wish.nil? || wish.steps.first.between?(1, STEPS.size)
        raise OptionParser::InvalidArgument, "--path #{wish.path}: must begin with /" unless wish.nil? || wish.path.start_with?("/")

        out.puts(help(parser)) if wish.nil?
        wish
      end

      def help(parser)
        <<~TEXT
          Shows what Paceline does for the application in this directory: five steps in the terminal, a few minutes

          #{parser.help}
          The steps: serve it, see where a request's time goes, cache a page, run the doctor, deploy under load. The tour starts a server of
          its own on a free port of 127.0.0.1, beside one that may run. It sends GET requests for one page, and changes none of your files.
        TEXT
      end

      def walk(screen, served, wish)
        screen.title("Paceline, shown with the application in #{served.dir}", "Five steps. No file of yours is changed.")
        wish.steps.each do |number|
          step = STEPS[number - 1]
          screen.heading(number, STEPS.size, step::TITLE)
          step.run(screen, served, wish.path)
          screen.pause unless number == wish.steps.last
        end
      ensure
        served.stop
      end
    end
  end
end

exit(Paceline::Tour::Command.run(ARGV)) if $PROGRAM_NAME == __FILE__
