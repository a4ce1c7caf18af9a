# Net::HTTP through a real front beside stock Net::HTTP: what is odd, large or old comes out the same, and what the server's operator forbids stays
# forbidden.
require_relative "../support/egress_scenario"
require "rbconfig"

class EgressLibraryTest < Minitest::Test
  include EgressScenario

  # What a program prints in a process of its own. ARGV is `arguments`.
  def run_program(program, *arguments, library: true)
    preamble = library ? 'require "paceline/http"; Paceline::HTTP.install!' : 'require "net/http"; require "openssl"'
    env = { "PACELINE_EGRESS" => library ? socket : "off", "http_proxy" => nil, "HTTP_PROXY" => nil }
    IO.popen([env, RbConfig.ruby, "-I", File.join(CHECKOUT, "gem/lib"), "-e", "#{preamble}\n#{program}", *arguments.map(&:to_s), err: %i[child out]], &:read)
  end

  # The same without the library and with it.
  def assert_as_stock(program, *arguments)
    stock = run_program(program, *arguments, library: false)
    refute_empty stock
    assert_equal stock, run_program(program, *arguments)
    stock
  end

  # --- requests that the front does not understand

  ODD = <<~'RUBY'.freeze
    http = Net::HTTP.new("127.0.0.1", ARGV[0])
    paths = [*33..126, *128..255].map { |byte| "/a#{byte.chr}b".b } + ["/a b", "/#{"x" * 70_000}", "/a?b#c", "//a", "/?"]
    paths.each { |path| puts "#{path[0, 20].inspect} #{http.get(path).body}" }
    [{ "X(Y)" => "1" }, { "X Y" => "1" }, 120.times.to_h { |n| ["X-#{n}", "1"] }, 1100.times.to_h { |n| ["X-#{n}", "1"] }].each do |fields|
      puts http.get("/fields", fields).body, http.post("/fields", "body", fields.merge("Content-Type" => "text/plain")).body
    end
    http.start { 3.times { |n| puts http.get(n == 1 ? "/<>" : "/").body } }
  RUBY

  def test_odd_requests_are_sent_as_they_are
    front
    to = answering do |head, body|
      fields = head.fields.reject { |name, _| name == "connection" }
      seen = "#{head.line.inspect.hash} #{head.line[0, 40].inspect} #{fields.size} #{fields.map(&:first).grep(/x.y/i).inspect} #{body}"
      "HTTP/1.1 200 OK\r\nContent-Length: #{seen.bytesize}\r\n\r\n#{seen}"
    end
    said = assert_as_stock(ODD, to.port)
    assert_includes said, '"/a<b" '
  end

  # --- responses

  def test_a_response_with_many_fields
    front
    [101, 1000].each do |count|
      to = origin { |link, _| link.answer("ok", fields: Array.new(count) { |n| "X-#{n}: #{n}" }) while link.head }
      assert_equal (count + 1).to_s, assert_as_stock('print Net::HTTP.get_response("127.0.0.1", "/", ARGV[0]).to_hash.size', to.port)
    end
  end

  def test_a_head_that_ends_early
    front
    to = origin { |link, _| link.head && link.write("HTTP/1.1 200 OK\r\nX-One: 1\r\n") }
    program = 'require "json"; http = Net::HTTP.new("127.0.0.1", ARGV[0]); 3.times { response = http.head("/"); print response.code, response.to_hash.to_json }'
    assert_equal '200{"x-one":["1"]}' * 3, assert_as_stock(program, to.port)
    assert_equal 6, to.connections, "a connection that has ended is not used again"
    whole = origin { |link, _| link.write("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n") while link.head }
    assert_equal '200{"content-length":["5"]}' * 3, assert_as_stock(program, whole.port)
    # A response with a body has to be whole.
    assert_match(/^EOFError/, run_program('begin; Net::HTTP.get("127.0.0.1", "/", ARGV[0]); rescue EOFError => e; print e.class; end', to.port))
  end

  # --- proxies

  def test_proxy_authentication_without_tls
    front
    proxy = origin do |link, _|
      while (head = link.head)
        known = head["proxy-authorization"] == "Basic #{["me:secret"].pack("m0")}"
        known ? link.answer(head.line) : link.answer("", status: "407 Proxy Authentication Required", fields: ['Proxy-Authenticate: Basic realm="x"'])
      end
    end
    program = <<~'RUBY'
      [["me", "secret"], ["me", "wrong"], []].each do |who|
        response = Net::HTTP.new("api.example", 80, "127.0.0.1", ARGV[0], *who).get("/x")
        p [response.code, response["proxy-authenticate"], response.body]
      end
    RUBY
    said = assert_as_stock(program, proxy.port)
    assert_includes said, '["200", nil, "GET http://api.example/x HTTP/1.1"]'
    assert_includes said, '["407", "Basic realm=\"x\"", ""]'
  end

  # --- TLS

  VERIFYING = <<~'RUBY'.freeze
    http = Net::HTTP.new("localhost", ARGV[0])
    http.use_ssl = true
    http.ca_file = ARGV[1]
    2.times do
      print http.get("/").body
    rescue OpenSSL::SSL::SSLError => e
      print "#{e.message[/certificate verify failed|handshake failure/]};"
    end
  RUBY

  def test_what_the_front_can_not_talk_to_the_process_does
    front
    good, other = Authority.new, Authority.new
    old = lambda do |context|
      context.max_version = :TLS1_2
      context.ciphers = "ECDHE-ECDSA-AES128-SHA"
    end
    to = secure(good, "localhost", change: old, &serving_ok)
    assert_equal "okok", assert_as_stock(VERIFYING, to.port, good.file(@dir))
    File.write(another = File.join(@dir, "another.pem"), other.certificate.to_pem)
    assert_equal "certificate verify failed;" * 2, assert_as_stock(VERIFYING, to.port, another), "it is verified all the same"
  end

  def test_who_is_refused_is_asked_once
    front
    stranger = Authority.new
    to = secure(stranger, "localhost", &serving_ok)
    File.write(file = File.join(@dir, "ours.pem"), Authority.new.certificate.to_pem)
    run_program(VERIFYING, to.port, file)
    assert_equal 2, to.connections, "one for each request"
  end

  def test_the_server_s_certificate_within_a_response
    front
    authority = Authority.new
    # Longer than what is read ahead.
    to = secure(authority, "localhost") { |link, *| link.answer("x" * 1_000_000) while link.head }
    program = <<~'RUBY'
      http = Net::HTTP.new("localhost", ARGV[0])
      http.use_ssl = true
      http.ca_file = ARGV[1]
      http.max_retries = 0
      http.start do
        http.request_get("/") { |response| print http.peer_cert.subject, response.read_body.size, http.peer_cert.subject }
        print http.get("/").body.size
      end
    RUBY
    assert_equal "/CN=localhost1000000/CN=localhost1000000", assert_as_stock(program, to.port, authority.file(@dir))
  end

  # --- what the operator forbids

  FORBIDDEN = <<~'RUBY'.freeze
    ["/", "/<", "/a#b", "/#{"x" * 70_000}"].each do |path|
      Net::HTTP.new("localhost", ARGV[0]).get(path, "X-One" => "1")
      print "asked "
    rescue Paceline::HTTP::Denied
      print "denied "
    end
    begin
      Net::HTTP.new("localhost", ARGV[0]).get("/", "Authorization" => "NTLM x", "X(Y)" => "1")
    rescue Paceline::HTTP::Denied
      print "denied"
    end
  RUBY

  def test_nothing_odd_gets_around_the_guard
    ["egress_guard = true\n", "egress_deny = [\"localhost\"]\n", "egress_allow = [\"api.example\"]\n"].each do |setting|
      front(setting)
      to = answering
      assert_equal "denied denied denied denied denied", run_program(FORBIDDEN, to.port), setting
      assert_equal 0, to.connections, setting
      @server.stop
      @server.wait
      @dir = nil
    end
  end

  # Where the guard lets an address pass, what the front can't do is refused: another address might answer the process.
  def test_what_needs_a_connection_of_its_own_is_not_made_under_the_guard
    front("egress_guard = true\negress_guard_allow = [\"127.0.0.0/8\", \"::1/128\"]\n")
    to = answering
    assert_equal "asked denied denied denied denied", run_program(FORBIDDEN, to.port)
    assert_equal 1, to.connections
    authority = Authority.new
    old = secure(authority, "localhost", change: ->(context) { context.max_version, context.ciphers = :TLS1_2, "ECDHE-ECDSA-AES128-SHA" }, &serving_ok)
    assert_match(/handshake failure|;;|HandshakeFailure/i, run_program(VERIFYING, old.port, authority.file(@dir)))
    assert_equal 2, old.connections
  end
end
