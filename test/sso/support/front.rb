# The real server with `[[sso]]`, in front of an application that shows what it was told of the visitor. It asserts nothing itself.
require "json"
require "open3"
require "openssl"
require_relative "../../e2e/support/certificates"
require_relative "../../e2e/support/scenario"
require_relative "browser"

module Front
  include Scenario

  HOST = "web.example.test"
  # What makes tickets: the example `protected` of crates/negotiate.
  TICKETS = ENV.fetch("PROTECTED_BIN") { File.join(ENV.fetch("CARGO_TARGET_DIR", File.join(Scenario::CHECKOUT, "target")), "debug/examples/protected") }

  # Shows who it was told it is, and all header fields. Nothing in it knows of single sign-on.
  APP = <<~'RUBY'
    require "json"

    # A stream that goes on until the reader leaves.
    class Events
      def initialize(who) = @who = who
      def each
        yield "data: #{@who}\n\n"
        File.read("events.fifo") if File.exist?("events.fifo")
        yield "data: end\n\n"
      end
    end

    counts = Hash.new(0)
    run lambda { |env|
      path = env["PATH_INFO"]
      who = env["REMOTE_USER"] || "nobody"
      text = ->(body, fields = {}) { [200, { "Content-Type" => "text/html" }.merge(fields), [body]] }
      case path
      when "/cached" then text.("#{who} #{counts[who] += 1}", "Cache-Control" => "public, max-age=600")
      when "/fragments" then text.("<p><esi:include src=\"/who\"/></p>", "Surrogate-Control" => 'content="ESI/1.0"')
      when "/who" then text.(who)
      when "/cookie" then text.(who, "Set-Cookie" => "own=1; path=/")
      when "/own-login" then [401, { "WWW-Authenticate" => 'Basic realm="the application"' }, ["its own login"]]
      when "/events" then [200, { "Content-Type" => "text/event-stream" }, Events.new(who)]
      when "/socket"
        io = env["rack.hijack"].call
        io.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n#{who}\n")
        io.close
        [-1, {}, []]
      else
        env["rack.input"].read
        shown = env.select { |name, value| value.is_a?(String) && name.match?(/\A(HTTP_|REMOTE_USER|AUTH_TYPE|PATH_INFO|REMOTE_IDENT|SERVER_NAME)/) }
        [200, { "Content-Type" => "application/json" }, [JSON.generate(shown.merge("paceline.user" => env["paceline.user"]))]]
      end
    }
  RUBY

  def authority = @authority ||= Authority.new

  # Serves `sso` (TOML, with what stands before the tables in `before`) on https with a certificate of `hosts`; `tls: false`: by http.
  # `env`: what the server sees, such as @kdc.env.
  def front(sso, before: "", files: {}, hosts: [HOST, "localhost"], env: {}, tls: true, **options)
    dir = app({ "config.ru" => APP, "paceline.toml" => "#{before}\n#{sso}" }.merge(files))
    authority.write(dir, "web", *hosts) if tls
    serve_front(dir, env: env, tls: tls, **options)
  end

  # The same in a folder that is there.
  def serve_front(dir, env: {}, tls: true, arguments: [], within: [], ready: true)
    @tls = tls
    bind = "tcp://127.0.0.1:0"
    if tls
      @authority_file = authority.file(dir)
      bind = "ssl://127.0.0.1:0?cert=web.pem&key=web.key"
    end
    # Its sessions are its own.
    env = { "STATE_DIRECTORY" => File.join(dir, "state") }.merge(env)
    server = serve(dir, "-b", bind, *arguments, env: env, port: false, ready: ready, within: within)
    server.wait_for(/Listening on https?:\/\/\S+:(\d+)/) { |match| server.port = Integer(match[1]) }
    @server = server
  end

  # A browser at the site. `ticket`: whether it has a person's tickets (of @kdc's cache) and was told to use them here.
  def browser(host: HOST, ticket: false, **options)
    Browser.new("#{@tls ? "https" : "http"}://#{host}:#{@server.port}", authority: @authority_file, ticket: ticket ? -> { token(host: host) } : nil, **options)
  end

  # A token for the site, made but not sent. `cache`: the tickets of somebody else.
  def token(*options, host: HOST, env: {})
    output, status = Open3.capture2e(@kdc.env.merge(env), TICKETS, "token", host, *options)
    raise Minitest::Assertion, output unless status.success?
    output.chomp
  end

  def negotiate(token) = { "Authorization" => "Negotiate #{token}" }
  def basic(name, password) = { "Authorization" => "Basic #{["#{name}:#{password}"].pack("m0")}" }

  # Sends bytes as they are, over TLS if the site has it, and reads until the server closes.
  def raw(bytes, alpn: nil)
    return @server.exchange(bytes) unless @tls
    authority.connect(@server.port, HOST, alpn: alpn) do |socket|
      socket.write(bytes)
      Timeout.timeout(Scenario::PATIENCE) { socket.read }
    end
  end

  # What the application was told.
  def told(answer) = JSON.parse(answer.body)

  def assert_signed_in(who, answer)
    assert_equal "200", answer.code, "#{answer.body}\n#{@server.output}"
    assert_equal who, told(answer)["REMOTE_USER"], answer.body
  end

  # The log says why, and the answer has this status.
  def assert_refused(kind, answer, status: "401")
    assert_equal status, answer.code, answer.body
    @server.wait_for(/\b#{Regexp.escape(kind)}\b/)
  end

  def self.programs(*names)
    path = "#{ENV.fetch("PATH")}:/usr/sbin:/sbin".split(":")
    names.reject { |name| path.any? { |folder| File.executable?(File.join(folder, name)) } }
  end
end
