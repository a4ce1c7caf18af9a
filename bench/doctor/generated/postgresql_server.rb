# frozen_string_literal: true

# A server of PostgreSQL for generated applications, on a Unix socket, with nothing of its own in its databases.
require "fileutils"
require "open3"
require "tmpdir"

module Bench
  module Generated
    class PostgresqlServer
      class Failed < StandardError; end

      PROGRAMS = Dir["/usr/lib/postgresql/*/bin"].max_by { |path| path[/\d+/].to_i }

      def initialize
        raise Failed, "there is no server of PostgreSQL (Debian: postgresql)" unless PROGRAMS

        # A socket's path is short; and it is no folder of root's, as which the server does not run.
        @host = Dir.mktmpdir
        @account = Process.euid.zero? ? %w[setpriv --reuid=postgres --regid=postgres --clear-groups] : []
        FileUtils.chown("postgres", nil, @host) if Process.euid.zero?
        @log = File.join(@host, "log")
        run("initdb", "-D", data, "-A", "trust", "-U", "postgres", "--no-sync")
        run("pg_ctl", "-D", data, "-w", "-l", @log, "-o", "-c listen_addresses='' -k #{@host} -c fsync=off -c max_connections=200", "start")
      end

      def environment = { "PGHOST" => @host, "PGUSER" => "postgres" }

      def stop
        run("pg_ctl", "-D", data, "-m", "immediate", "stop")
        FileUtils.rm_rf(@host)
      end

      private

      def data = File.join(@host, "data")

      def run(program, *arguments)
        said, status = Open3.capture2e(*@account, File.join(PROGRAMS, program), *arguments, chdir: @host)
        raise Failed, "#{program}: #{said.lines.last(3).join.strip}" unless status.success?
      end
    end
  end
end
