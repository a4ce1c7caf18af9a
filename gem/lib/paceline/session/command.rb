# frozen_string_literal: true

require "optparse"
require_relative "store"
require_relative "file_backend"

module Paceline
  module Session
    # `paceline sessions`: what can be done with a file of sessions from the terminal. Values are never loaded.
    module Command
      USAGE = <<~TEXT
        Usage: paceline sessions stats FILE      say how many sessions there are
               paceline sessions sweep FILE      remove what has expired
               paceline sessions clear FILE      remove all: everybody is logged out
      TEXT
      private_constant :USAGE

      module_function

      # Runs it, and returns the exit status: 0, 1 if it failed, 2 if it was not understood.
      def run(arguments, out: $stdout, err: $stderr)
        parser = OptionParser.new(USAGE)
        name, file, *rest = parser.parse(arguments)
        if !%w[stats sweep clear].include?(name) || file.nil? || rest.any?
          err.puts(parser.help)
          return 2
        end
        raise Unavailable, "#{file} does not exist" unless File.file?(file)

        out.puts("#{file}: #{send(name, FileBackend.new(file, max_size: 0, trust: true))}")
        0
      rescue OptionParser::ParseError => e
        err.puts("paceline: #{e.message}", parser.help)
        2
      rescue StandardError => e
        err.puts("paceline: #{e.message}")
        1
      end

      def stats(sessions)
        found = sessions.statistics(now)
        "#{counted(found[:sessions])}, #{found[:expired]} of them expired, #{(found[:bytes] / 1024.0).ceil} KB"
      end

      def sweep(sessions)
        "#{counted(sessions.sweep(now))} removed"
      end

      def clear(sessions)
        "#{counted(sessions.clear)} removed"
      end

      def now
        Process.clock_gettime(Process::CLOCK_REALTIME, :millisecond)
      end

      def counted(count)
        "#{count} session#{"s" unless count == 1}"
      end
    end
  end
end

exit(Paceline::Session::Command.run(ARGV)) if $PROGRAM_NAME == __FILE__
