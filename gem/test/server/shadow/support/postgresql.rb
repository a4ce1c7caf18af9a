# frozen_string_literal: true

require "open3"
require "tmpdir"

# A server of PostgreSQL for the tests of one process, on a Unix socket; for as long as they run. Tests are skipped where there is none, or no gem pg.
class PostgreSQL
  PROGRAMS = Dir["/usr/lib/postgresql/*/bin"].max_by { |path| path[/\d+/].to_i }

  # The folder of the socket.
  attr_reader :host

  class << self
    def with
      reason = missing and raise Minitest::Skip, reason
      @server ||= new.tap { |server| Minitest.after_run { server.stop } }
      @server.connected { yield @server }
    end

    private

    def missing
      require "pg"
      "no server of PostgreSQL" unless PROGRAMS
    rescue LoadError
      "no gem pg"
    end
  end

  def initialize
    @host = Dir.mktmpdir
    # The server does not run as root.
    @user = Process.euid.zero? ? ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] : []
    system(*%w[chown postgres], @host, exception: true) if Process.euid.zero?
    run("initdb", "-D", data, "-A", "trust", "-U", "postgres", "--no-sync")
    run("pg_ctl", "-D", data, "-w", "-l", File.join(@host, "log"), "-o", "-c listen_addresses='' -k #{@host} -c fsync=off", "start")
  end

  # With a connection while the block runs, and not longer: a child that another test forks would end it with itself.
  def connected
    @connection = PG.connect(host: @host, dbname: "postgres", user: "postgres")
    yield
  ensure
    @connection&.close
    @connection = nil
  end

  def query(sql)
    @connection.exec(sql).values
  end

  def listen(channel)
    query("LISTEN #{channel}")
  end

  # Those that have come.
  def notifications
    query("SELECT 1")
    Array.new(5) { @connection.notifies }.compact
  end

  def stop
    run("pg_ctl", "-D", data, "-m", "immediate", "stop")
    FileUtils.rm_rf(@host)
  end

  private

  def data
    File.join(@host, "data")
  end

  def run(program, *arguments)
    output, status = Open3.capture2e(*@user, File.join(PROGRAMS, program), *arguments, chdir: "/")
    raise output unless status.success?
  end
end
