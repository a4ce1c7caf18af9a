# frozen_string_literal: true

# `bin/bench sso`: what single sign-on costs a request: a file over TLS without a login, with a session, and with a ticket for each request, by Paceline and by
# Apache with mod_auth_gssapi, in turn. Tickets are of a KDC of its own, made before; each is used once.
#
#   bin/bench sso [--rounds N] [--seconds N] [--tickets N] [--output DIR]
#
# The example `protected` of crates/negotiate makes the tickets: cargo build --package negotiate --examples.
require "fileutils"
require "json"
require "open3"
require "optparse"
require "tmpdir"
require_relative "lib/arithmetic"
require_relative "lib/invocation"
require_relative "lib/machine"
require_relative "lib/processes"
require_relative "lib/table"
require_relative "../test/e2e/support/certificates"
require_relative "../test/sso/support/apache"
require_relative "../test/sso/support/kdc"

module Bench
  class SignOn
    include Table

    HOST = "web.example.test"
    CONNECTIONS = 16
    BODY = "hello\n" * 170
    HEAD = ["a request with", "server", "requests/s", "CPU µs", "x without a login"].freeze
    WAYS = ["no login", "a session", "a ticket of its own"].freeze
    TICKETS = ENV.fetch("PROTECTED_BIN") { File.join(ENV.fetch("CARGO_TARGET_DIR", File.join(Servers::HERE, "target")), "debug/examples/protected") }

    # A server that listens: its name, port, pid, and the cookie of a session.
    Server = Struct.new(:name, :port, :pid, :cookie)

    def initialize(arguments)
      @command = ["bin/bench sso", *arguments].join(" ")
      @rounds, @seconds, @tickets, @output = 5, 3, 300, File.join(Servers::HERE, "bench/results")
      OptionParser.new do |it|
        it.on("--rounds N", Integer) { |number| @rounds = number }
        it.on("--seconds N", Integer) { |number| @seconds = number }
        it.on("--tickets N", Integer) { |number| @tickets = number }
        it.on("--output DIR") { |directory| @output = directory }
      end.parse!(arguments.dup)
      abort "bin/bench sso: build what makes tickets: cargo build --package negotiate --examples" unless File.executable?(TICKETS)
      missing = Kdc.missing + Apache.missing
      abort "bin/bench sso: #{missing.join(", ")} missing: bin/setup test" if missing.any?
    end

    def run
      facts = Machine.facts
      rows = with_servers { |servers| measure(servers) }
      text = page(facts, rows)
      puts text
      base = File.join(@output, "sso-#{Time.now.utc.strftime("%Y%m%d-%H%M%S")}")
      FileUtils.mkdir_p(@output)
      File.write("#{base}.md", text)
      File.write("#{base}.json", "#{JSON.pretty_generate("command" => @command, "machine" => facts, "versions" => versions, "results" => rows)}\n")
      puts "\nWritten to #{base}.md and .json"
    end

    private

    def with_servers
      @kdc = Kdc.new
      @work = Dir.mktmpdir("paceline-bench-sso-")
      @kdc.person("alice")
      @kdc.start
      keytab = @kdc.service("HTTP/#{HOST}")
      @kdc.sign_in("alice")
      @authority = Authority.new
      certificate = @authority.write(@work, "web", HOST)
      yield [paceline(keytab, certificate), apache(keytab, certificate)].each { |server| server.cookie = cookie(server) }
    ensure
      if @pid
        Process.kill("TERM", @pid)
        Process.wait(@pid)
      end
      @apache&.remove
      @kdc&.remove
      FileUtils.rm_rf(@work) if @work
    end

    # A folder of files: no Ruby takes part.
    def paceline(keytab, certificate)
      FileUtils.mkdir_p(["#{@work}/files/open", "#{@work}/state"])
      ["index.html", "open/index.html"].each { |name| File.write("#{@work}/files/#{name}", BODY) }
      File.write("#{@work}/paceline.toml", <<~TOML)
        [[site]]
        root = "files"
        [[site.sso]]
        except = ["/open/*"]
        kerberos = { keytab = "#{keytab}" }
        otherwise = "refuse"
      TOML
      env = @kdc.env.merge("STATE_DIRECTORY" => "#{@work}/state", "PACELINE_USER" => ("root" if Process.uid.zero?))
      bind = "ssl://127.0.0.1:0?cert=#{certificate[0]}&key=#{certificate[1]}"
      @pid = Process.spawn(env, Servers.paceline, "-b", bind, "-q", chdir: @work, out: "#{@work}/log", err: %i[child out])
      Server.new("Paceline", listening("#{@work}/log"), @pid)
    end

    def listening(log)
      200.times do
        port = File.read(log)[/Listening on https:\S+:(\d+)/, 1] and return Integer(port)
        sleep 0.05
      end
      abort "bin/bench sso: Paceline does not listen:\n#{File.read(log)}"
    end

    def apache(keytab, certificate)
      sessions = ["GssapiUseSessions On", "Session On", "SessionCookieName gssapi_session path=/;httponly;secure;"]
      @apache = Apache.new(@kdc, keytab, certificate: certificate, options: sessions)
      FileUtils.mkdir_p(@apache.file("htdocs/open"))
      ["index.html", "open/index.html"].each { |name| File.write(@apache.file("htdocs/#{name}"), BODY) }
      File.write(@apache.file("apache.conf"), <<~CONF, mode: "a")
        MaxKeepAliveRequests 0
        <Location /open/>
          AuthType None
          Require all granted
        </Location>
      CONF
      @apache.start
      Server.new("mod_auth_gssapi", @apache.port, @apache.pid)
    end

    def measure(servers)
      rounds = Array.new(@rounds) { WAYS.flat_map { |way| servers.map { |server| [[way, server.name], timed(way, server)] } }.to_h }
      WAYS.product(servers).map do |way, server|
        figures = rounds.map { |round| round[[way, server.name]] }
        ratios = rounds.map { |round| round[[way, server.name]][:cpu] / round[["no login", server.name]][:cpu] }
        { "way" => way, "server" => server.name, "rate" => Arithmetic.median(figures.map { |figure| figure[:rate] }),
          "cpu" => Arithmetic.median(figures.map { |figure| figure[:cpu] }), "x" => Arithmetic.median(ratios), "range" => ratios.minmax }
      end
    end

    # Requests of a second, and the processor time of the server for one (µs).
    def timed(way, server)
      heads = way == "a ticket of its own" ? tokens.map { |token| head("/", "Authorization: Negotiate #{token}") } : nil
      heads ||= [way == "a session" ? head("/", "Cookie: #{server.cookie}") : head("/open/")]
      before, began = ticks(server.pid), clock
      answered = load(server, heads, once: way == "a ticket of its own")
      took = clock - began
      { rate: answered / took, cpu: (ticks(server.pid) - before) / Processes::TICKS * 1_000_000 / answered }
    end

    def head(path, *fields) = ["GET #{path} HTTP/1.1", "Host: #{HOST}", *fields, "", ""].join("\r\n")

    # Kept connections, a thread each: through all heads once, or with one for the time. How many were answered.
    def load(server, heads, once:)
      waiting = Queue.new(heads)
      stop = clock + @seconds
      Array.new(once ? 4 : CONNECTIONS) do
        Thread.new do
          @authority.connect(server.port, HOST) do |io|
            answered = 0
            while once ? (request = (waiting.pop(true) rescue nil)) : (clock < stop && (request = heads[0]))
              answer(io, request, server)
              answered += 1
            end
            answered
          end
        end
      end.sum(&:value)
    end

    def answer(io, request, server)
      io.write(request)
      head = io.gets("\r\n\r\n")
      abort "bin/bench sso: #{server.name} answers #{head}" unless head.start_with?("HTTP/1.1 200")
      io.read(Integer(head[/^content-length: (\d+)/i, 1]))
      head
    end

    def cookie(server)
      token = tokens(1).first
      @authority.connect(server.port, HOST) { |io| answer(io, head("/", "Authorization: Negotiate #{token}"), server) }.scan(/^set-cookie: ([^;\r]+)/i).flatten.last
    end

    def tokens(count = @tickets)
      output, status = Open3.capture2e(@kdc.env, TICKETS, "token", HOST, "count=#{count}")
      status.success? ? output.split : abort("bin/bench sso: no tickets: #{output}")
    end

    # Of a server and what it started.
    def ticks(pid)
      children = Dir["/proc/#{pid}/task/*/children"].flat_map { |file| File.read(file).split.map(&:to_i) }
      stat = Processes.parse_stat(File.read("/proc/#{pid}/stat"))
      stat.ticks + stat.reaped_ticks + children.sum { |child| ticks(child) }
    rescue Errno::ENOENT
      0
    end

    def clock = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    def versions = Machine.versions(%w[apache2-bin libapache2-mod-auth-gssapi krb5-kdc libgssapi-krb5-2])

    def page(facts, rows)
      cells = rows.map { |row| [row["way"], row["server"], rounded(row["rate"]), rounded(row["cpu"]), spread(row["x"], row["range"])] }
      <<~PAGE
        # bin/bench sso

        #{facts["date"]} · #{facts["processors"]} x #{facts["processor"]} · load before: #{facts["load_before"].join(" ")}

        A file of #{BODY.bytesize} bytes over TLS on kept connections, #{@rounds} rounds of #{@seconds} s, or of #{@tickets} tickets, each used once. CPU: what the server's
        processes used for a request. Requests/s are bounded by the client, which is Ruby's and has the same processors. Medians; x: of the rounds' ratios.

        #{align(HEAD, cells, texts: [0, 1])}

        Versions: #{versions.map { |name, version| "#{name} #{version}" }.join(", ")}. #{facts["ruby"]}, Linux #{facts["kernel"]}.
      PAGE
    end
  end
end

if $PROGRAM_NAME == __FILE__
  Bench::Invocation.interrupt_by_signals
  Bench::Invocation.need_paceline("sso")
  Bench::Invocation.of_command { Bench::SignOn.new(ARGV).run }
end
