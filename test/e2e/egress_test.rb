# Outbound calls through the front: what goes out and what comes back, byte by byte; connections that stay; what goes wrong.
require_relative "support/scenario"
require_relative "support/certificates"
require_relative "support/egress_caller"
require_relative "support/http2_server"
require_relative "support/origin"
require "json"

class EgressTest < Minitest::Test
  include Scenario

  APP = { "config.ru" => 'run ->(_) { [200, {}, [ENV["PACELINE_EGRESS"].to_s]] }' }.freeze
  OK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".freeze

  def teardown
    super
    Array(@origins).each(&:close)
    Array(@callers).each(&:close)
  end

  def front(toml = "", **more)
    @dir ||= app(APP.merge("paceline.toml" => toml))
    @server = serve(@dir, **more)
  end

  def socket = File.join(@dir, "tmp/paceline-egress.sock")
  def caller_ = EgressCaller.new(socket).tap { |made| (@callers ||= []) << made }
  def call(...) = (@caller ||= caller_).call(...)

  def origin(...) = Origin.new(...).tap { |origin| (@origins ||= []) << origin }

  # Answers each request with what the block makes of its head and body; they go to @asked.
  def answering(&answer)
    answer ||= ->(_, _) { OK }
    @asked = Queue.new
    origin do |link, number|
      while (head = link.head)
        body = link.body(head)
        @asked << [head, body, number]
        link.write(answer.call(head, body))
      end
    end
  end

  # The same over TLS; the block makes of a connection what is to be served.
  def secure(authority, *names, alpn: nil, change: nil, &script)
    context = OpenSSL::SSL::SSLContext.new
    certificate, key = authority.issue(*names)
    context.cert = OpenSSL::X509::Certificate.new(certificate)
    context.key = OpenSSL::PKey.read(key)
    context.alpn_select_cb = ->(offered) { (Array(alpn) & offered).first } if alpn
    change&.call(context)
    origin do |link, number|
      tls = OpenSSL::SSL::SSLSocket.new(link.io, context)
      tls.accept
      script.call(Origin::Link.new(tls), number, tls)
    rescue OpenSSL::SSL::SSLError
      nil
    end
  end

  def serving_ok = ->(link, *) { link.write(OK) while (head = link.head) && link.body(head) }

  def take(queue) = Timeout.timeout(PATIENCE) { queue.pop }

  def error(response) = response["paceline-egress-error"]

  def told(response) = response["paceline-egress"].split(", ").to_h { |member| member.split("=", 2) }

  # --- the socket

  def test_the_application_is_told_where_the_socket_is_and_nobody_else_may_use_it
    front
    assert_equal socket, @server.get("/").body
    assert_equal 0o600, File.stat(socket).mode & 0o777
    @server.stop
    @server.wait
    refute File.exist?(socket), "it is removed in the end"
  end

  def test_it_can_be_switched_off
    front("egress = false")
    assert_equal "off", @server.get("/").body
    refute File.exist?(socket)
  end

  def test_a_socket_whose_file_is_lost_is_opened_again
    front
    File.delete(socket)
    eventually("the socket") { File.exist?(socket) }
    assert_equal "ok", call("#{answering.url}/").body
  end

  # --- requests and responses

  def test_a_request_and_its_response_to_the_byte
    front
    to = answering { |*| "HTTP/1.1 203 As I Like\r\nX-Own: Ä1\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nConnection: x-hop, keep-alive\r\nX-Hop: 1\r\nKeep-Alive: timeout=9\r\nPaceline-Egress-Error: denied\r\nPaceline-Egress: new=?9\r\nContent-Length: 3\r\n\r\nyes" }
    fields = { "Host" => "other.example", "X-MiXed" => "1", "Cookie" => "a=b", "Connection" => "X-Own", "X-Own" => "1", "TE" => "trailers", "Accept-Encoding" => "gzip" }
    answer = call("#{to.url}/a%20b//c?d=%C3%BC&e=", method: "POST", fields: fields, body: "a\0b")
    head, body, = take(@asked)
    assert_equal "POST /a%20b//c?d=%C3%BC&e= HTTP/1.1", head.line
    assert_equal "a\0b", body
    assert_equal ["Host: other.example", "X-MiXed: 1", "Cookie: a=b", "Accept-Encoding: gzip", "Content-Length: 3"].sort, head.bytes.split("\r\n").drop(1).sort
    assert_equal ["HTTP/1.1 203 As I Like", "yes"], [answer.line, answer.body]
    expected = [["X-Own", "Ä1".b], ["Set-Cookie", "a=1"], ["Set-Cookie", "b=2"], ["Content-Length", "3"]]
    assert_equal expected.sort, answer.fields.reject { |name, _| name.casecmp?("paceline-egress") }.map { |name, value| [name, value.b] }.sort
    assert_equal [%("1.1"), "?1", %("127.0.0.1:#{to.port}")], told(answer).values_at("version", "new", "address")
  end

  def test_bodies_that_have_no_length_stream_both_ways
    front
    upload = Queue.new
    to = origin do |link, _|
      head = link.head
      upload << head
      link.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
      loop do
        size = link.io.gets("\r\n").to_i(16)
        piece = link.io.read(size + 2).chomp("\r\n")
        link.write("#{size.to_s(16)}\r\n#{piece.upcase}\r\n")
        break if size.zero?
      end
    end
    asking = caller_
    asking.ask("#{to.url}/", method: "POST", fields: { "Transfer-Encoding" => "chunked" })
    asking.write("1\r\na\r\n")
    assert_equal "chunked", take(upload)["transfer-encoding"]
    assert_equal 200, asking.head.status
    assert_equal "A", asking.chunk
    asking.write("2\r\nbc\r\n")
    assert_equal "BC", asking.chunk
    asking.write("0\r\n\r\n")
    assert_nil asking.chunk
  end

  def test_responses_without_a_body
    front
    to = answering { |head, _| head.line.start_with?("HEAD") ? "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n" : "HTTP/1.1 #{head.line[%r{/(\d+)}, 1]} X\r\n\r\n" }
    assert_equal "9", call("#{to.url}/", method: "HEAD")["content-length"]
    assert_equal 204, call("#{to.url}/204").status
    assert_equal 304, call("#{to.url}/304").status
    assert_equal 1, to.connections
  end

  def test_interim_responses_are_passed_over
    front
    to = answering { |*| "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n#{OK}" }
    assert_equal "ok", call("#{to.url}/").body
  end

  # --- connections

  def test_processes_share_connections_and_a_restart_of_workers_leaves_them
    front
    to = answering
    assert_equal "?1", told(call("#{to.url}/"))["new"]
    @server.signal("USR1")
    @server.wait_for(/ is ready: .* is ready: /m)
    assert_equal "?0", told(caller_.call("#{to.url}/"))["new"]
    assert_equal 1, to.connections
  end

  def test_a_connection_that_was_closed_meanwhile_costs_a_repeatable_request_nothing
    front
    # Each connection serves one request, and is closed when the next one comes.
    seen = Queue.new
    to = origin do |link, number|
      link.body(link.head)
      link.write(OK)
      head = link.head and seen << [number, head.line, link.body(head)]
    end
    assert_equal "ok", call("#{to.url}/").body
    assert_equal "ok", call("#{to.url}/put", method: "PUT", body: "again").body
    assert_equal [1, "PUT /put HTTP/1.1", "again"], take(seen)
    assert_equal 2, to.connections
    # What must not be repeated is not.
    failed = call("#{to.url}/post", method: "POST", body: "once")
    assert_equal [502, "closed;sent"], [failed.status, error(failed)]
    assert_equal [2, "POST /post HTTP/1.1", "once"], take(seen)
  end

  def test_nothing_is_repeated_after_a_byte_of_an_answer
    front
    times = Queue.new
    to = origin do |link, number|
      link.head
      link.write(OK) if number == 1
      next unless number > 1 || link.head
      times << 1
      link.write("H")
    end
    assert_equal "ok", call("#{to.url}/").body
    assert_equal 502, call("#{to.url}/").status
    assert_equal 1, times.size
  end

  def test_what_an_upstream_says_of_keeping_is_believed
    front
    to = answering { |head, _| head.line.include?("/close") ? OK.sub("\r\n", "\r\nConnection: close\r\n") : OK.sub("\r\n", "\r\nKeep-Alive: timeout=1\r\n") }
    call("#{to.url}/close")
    assert_equal "?1", told(call("#{to.url}/"))["new"]
    assert_equal "?1", told(call("#{to.url}/"))["new"], "it keeps them for less than a second more"
  end

  def test_calls_beyond_egress_connections_wait_for_their_turn
    front("egress_connections = 1")
    go = Queue.new
    to = answering { |*| go.pop && OK }
    first, second = caller_, caller_
    first.ask("#{to.url}/1")
    take(@asked)
    second.ask("#{to.url}/2")
    refute second.io.wait_readable(0.2)
    2.times { go << true }
    assert_equal "ok", first.response.body
    answer = second.response
    assert_equal ["ok", "?0"], [answer.body, told(answer)["new"]]
    assert_operator Float(told(answer)["waited"]), :>=, 100
    # Who waits for too long gets none.
    first.ask("#{to.url}/3")
    2.times { take(@asked) }
    late = second.call("#{to.url}/4", "open_timeout=0.1")
    assert_equal [504, "open_timeout"], [late.status, error(late)]
    go << true
  end

  def test_a_caller_who_leaves_takes_his_call_along
    front
    left = Queue.new
    to = origin do |link, _|
      link.head
      left << :asked
      left << link.io.read(1)
    end
    gone = caller_
    gone.ask("#{to.url}/")
    assert_equal :asked, take(left)
    gone.close
    assert_nil take(left)
  end

  # --- failures

  def test_each_failure_has_its_kind
    front
    nobody = TCPServer.new("127.0.0.1", 0).then { |server| server.addr[1].tap { server.close } }
    assert_equal %(connect;errno=111;address="127.0.0.1:#{nobody}";message="Connection refused"), error(call("http://127.0.0.1:#{nobody}/"))
    assert_match(/\Aresolve;message="/, error(call("http://no-such-host.invalid/")))
    answers = { "closed" => "", "cut" => "HTTP/1.1 200 O", "ssh" => "SSH-2.0-x\r\n\r\n", "twice" => "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab" }
    to = origin { |link, _| link.write(answers.fetch(link.head.line[%r{/(\w+)}, 1])) }
    assert_equal "closed;sent", error(call("#{to.url}/closed"))
    assert_equal "closed;sent", error(call("#{to.url}/cut"))
    assert_match(/\Aprotocol;message=/, error(call("#{to.url}/ssh")))
    assert_match(/\Aprotocol;message=/, error(call("#{to.url}/twice")))
    broken = origin { |link, _| link.head && link.reset }
    assert_equal "reset;errno=104;sent", error(call("#{broken.url}/"))
    answer = call("/nowhere")
    assert_equal [400, %(request;message="the target is not in absolute-form")], [answer.status, error(answer)]
    assert_match(/\Aunsupported;/, error(call("#{to.url}/", "colour=blue")))
    assert_match(/\Aunsupported;/, error(call("#{to.url}/", fields: { "Authorization" => "NTLM abc" })))
  end

  def test_a_body_that_breaks_off_is_broken_off
    front
    to = origin { |link, _| link.head && link.write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf") }
    assert_raises(EOFError) { caller_.call("#{to.url}/") }
    chunks = origin { |link, _| link.head && link.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n") }
    assert_raises(EOFError) { caller_.call("#{chunks.url}/") }
  end

  def test_a_deadline_holds_for_head_and_body
    front
    to = origin { |link, _| link.write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf") if link.head.line.include?("/body"); link.io.read }
    answer = call("#{to.url}/head", "deadline=0.1")
    assert_equal [504, "deadline"], [answer.status, error(answer)]
    assert_raises(EOFError) { caller_.call("#{to.url}/body", "deadline=0.3") }
  end

  def test_an_upstream_that_can_not_be_reached_is_left_alone_for_a_while
    front("egress_breaker = 2")
    nobody = TCPServer.new("127.0.0.1", 0).then { |server| server.addr[1].tap { server.close } }
    kinds = Array.new(3) { error(call("http://127.0.0.1:#{nobody}/")).split(";").first }
    assert_equal %w[connect connect open_circuit], kinds
    back = origin(TCPServer.new("127.0.0.1", nobody)) { |link, _| link.write(OK) while link.head }
    eventually("the circuit to close") { call("#{back.url}/").status == 200 }
  end

  # --- what is told of it

  def test_each_upstream_is_counted
    front
    to = answering { |head, _| head.line.include?("/cut") ? "HTTP/1.1 200 O" : OK.sub("\r\n", "\r\nConnection: close\r\n") }
    2.times { call("#{to.url}/") }
    counts = lambda do
      text = UNIXSocket.open(File.join(@dir, "tmp/paceline.sock")) do |io|
        io.write("GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        Wire.response(io).body
      end
      text.lines.grep(/^paceline_outbound_.*127\.0\.0\.1:#{to.port}/).to_h { |line| [line[/outbound_(\w+?)(_total)?\{/, 1] + line[/(phase|kind)="(\w+)"/, 2].to_s, Float(line.split.last)] }
    end
    eventually("two calls") { counts.call["calls"] == 2 }
    told = counts.call
    assert_equal [2, 0], told.values_at("connections", "repeated")
    assert_operator told["secondstotal"], :>=, told["secondsfirst_byte"]
    assert_operator told["secondsconnect"], :>, 0
    nobody = origin { |link, _| link.head && link.reset }
    call("#{nobody.url}/")
    to = nobody
    eventually("the failure") { counts.call["failuresreset"] == 1 }
  end

  def test_what_a_request_called_is_in_its_line_and_connections_of_its_own_are_said_once
    spans = '{ "outbound" => [412_000.0, 15], "outbound_new" => [0.0, 2], "connect:tls:api.example" => [120_000.0, 15] }'
    @dir = app("config.ru" => "run ->(_) { Thread.current[:paceline_spans] = #{spans}; [200, {}, [\"ok\"]] }")
    @server = serve(@dir)
    2.times { @server.get("/orders/7") }
    @server.wait_for(%r{"GET /orders/7 .* outbound=15 new_conn=2 outbound_ms=412 .*"GET /orders/7}m)
    said = @server.output.scan(/^.*opened.*$/)
    assert_equal 1, said.size
    assert_match(%r{GET /orders/\* opened 15 TLS connections to api\.example \(120 ms of \d+ ms\); one line would reuse them: `require "paceline/http"}, said.first)
    @server.stop
    @server.wait
    json = serve(@dir, "--access-log-format", "json")
    json.get("/orders/7")
    json.wait_for(/"event":"request"/)
    line = JSON.parse(json.output.lines.grep(/"event":"request"/).first)
    assert_equal [15, 2, 412.0], line.values_at("outbound", "new_conn", "outbound_ms")
    assert_empty line.keys.grep(/connect:|outbound_new/)
  end

  # An application whose page calls an upstream over TLS four times by Net::HTTP.
  def calling(library)
    authority = Authority.new
    to = secure(authority, "localhost", &serving_ok)
    @dir = app
    write(@dir, "config.ru" => <<~RUBY)
      require "net/http"
      #{library}
      CA = #{authority.file(@dir).inspect}
      run(lambda do |env|
        said = Array.new(4) do
          http = Net::HTTP.new("localhost", #{to.port})
          http.use_ssl = true
          http.ca_file = CA
          http.get("/").body
        rescue StandardError => e
          e.class.name
        end
        [200, {}, [said.uniq.join(" ")]]
      end)
    RUBY
    [to, authority]
  end

  INSTALLED = "require #{File.join(CHECKOUT, "gem/lib/paceline/http").inspect}; Paceline::HTTP.install!".freeze

  def test_the_page_of_the_story_and_its_one_line
    slow, = calling("")
    @server = serve(@dir)
    assert_equal "ok", @server.get("/orders").body
    @server.wait_for(/GET \/orders opened 4 TLS connections to localhost \([\d,]+ ms of [\d,]+ ms\); one line would reuse them/)
    assert_equal 4, slow.connections
    fast, = calling(INSTALLED)
    @server = serve(@dir)
    2.times { assert_equal "ok", @server.get("/orders").body }
    @server.wait_for(/ outbound=4 new_conn=1 .* outbound=4 new_conn=0 outbound_ms=\d/m)
    assert_equal 1, fast.connections
    refute_match(/one line would reuse/, @server.output)
  end

  def test_the_trace_of_a_request_goes_on
    traces = Queue.new
    to = answering { |head, _| traces << [head["traceparent"], head["tracestate"]]; OK }
    @dir = app
    write(@dir, "config.ru" => "require 'openssl'; #{INSTALLED}\nrun ->(_) { [200, {}, [Net::HTTP.get(URI('#{to.url}/'))]] }")
    @server = serve(@dir)
    parent = "00-#{"a" * 32}-#{"b" * 16}-01"
    @server.get("/", "traceparent" => parent, "tracestate" => "x=y")
    @server.get("/")
    assert_equal [[parent, "x=y"], [nil, nil]], [take(traces), take(traces)]
  end

  def test_calls_get_no_longer_than_the_request_has
    silent = origin { |link, _| link.head && link.io.read }
    @dir = app
    write(@dir, "config.ru" => "#{INSTALLED}\nrun ->(_) { [200, {}, [begin Net::HTTP.get(URI('#{silent.url}/')); rescue Paceline::HTTP::DeadlineExceeded => e then e.class.name end]] }")
    @server = serve(@dir, "--app-hard-timeout", "2s")
    assert_equal "Paceline::HTTP::DeadlineExceeded", @server.get("/").body
  end

  def test_who_has_left_is_asked_for_no_more
    asked = Queue.new
    silent = origin { |link, _| (head = link.head) && asked << head.line && link.io.read }
    @dir = app
    page = "begin Net::HTTP.get(URI('#{silent.url}/')); rescue Paceline::HTTP::ClientGone => e then File.write('said', e.message); end"
    write(@dir, "config.ru" => "#{INSTALLED}\nrun ->(env) { #{page}; [200, {}, []] }", "paceline.toml" => "egress_cancel = true")
    @server = serve(@dir)
    @server.connect do |client|
      client.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
      assert_equal "GET / HTTP/1.1", take(asked)
    end
    said = File.join(@dir, "said")
    eventually("the end of the call") { File.exist?(said) && File.read(said) == "the client of this request has left" }
    # What changes something goes on.
    File.delete(said)
    @server.connect do |client|
      client.write("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
      take(asked)
    end
    # It is looked five times a second.
    refute silent_ended?(said)
  end

  def silent_ended?(said)
    eventually("the file", within: 1) { File.exist?(said) }
    true
  rescue Minitest::Assertion, Timeout::Error, RuntimeError
    false
  end

  # --- who may be asked

  def test_lists_of_hosts
    front(%(egress_allow = ["*.example", "127.0.0.1"]\negress_deny = ["evil.example"]))
    assert_equal "ok", call("#{answering.url}/").body
    assert_equal %(denied;message="calls to localhost are not allowed here"), error(call("http://localhost/"))
    assert_equal %(denied;message="calls to evil.example are not allowed here"), error(call("http://EVIL.example/"))
  end

  def test_the_guard_judges_addresses_after_names
    front(%(egress_guard = true\negress_guard_allow = ["127.0.0.2"]))
    to = origin(TCPServer.new("0.0.0.0", 0)) { |link, _| link.write(OK) while link.head }
    assert_match(/\Adenied;address="(127.0.0.1|::1)";message="localhost is not public/, error(call("http://localhost:#{to.port}/")))
    assert_match(/\Adenied;address="127.0.0.1"/, error(call("http://127.0.0.1:#{to.port}/")))
    assert_match(/\Adenied;address="169.254.169.254"/, error(call("http://169.254.169.254/latest/meta-data")))
    assert_equal "ok", call("http://127.0.0.2:#{to.port}/").body
    assert_match(/\Adenied;address="127.0.0.1"/, error(call("http://public.example:#{to.port}/", %(address="127.0.0.1"))))
  end

  def test_a_call_may_ask_for_the_guard_itself
    front
    to = answering
    assert_equal "ok", call("#{to.url}/").body
    assert_match(/\Adenied;/, error(call("#{to.url}/", "guard")), "a kept connection is no way around it")
  end

  # --- TLS

  def test_certificates_are_verified_as_by_net_http
    front
    ours, theirs = Authority.new, Authority.new
    file = ours.file(@dir)
    good = secure(ours, "localhost", "127.0.0.1", &serving_ok)
    trusting = %(ca_file="#{file}")
    assert_equal "ok", call("https://localhost:#{good.port}/", trusting).body
    assert_equal "ok", call("https://localhost:#{good.port}/", "#{trusting}, system").body
    assert_equal "ok", call("https://127.0.0.1:#{good.port}/", trusting).body
    assert_equal %(tls;message="invalid peer certificate: UnknownIssuer"), error(call("https://localhost:#{good.port}/"))
    stranger = secure(theirs, "localhost", &serving_ok)
    # The authorities have one name.
    assert_equal %(tls;message="invalid peer certificate: BadSignature"), error(call("https://localhost:#{stranger.port}/", trusting))
    assert_equal "ok", call("https://localhost:#{stranger.port}/", "verify=?0").body
    assert_match(/\Atls;/, error(call("https://localhost:#{stranger.port}/", trusting)), "a connection that nobody verified is not lent to who wants it verified")
    misnamed = secure(ours, "other.example", &serving_ok)
    assert_match(/not valid for name|NotValidForName/, error(call("https://localhost:#{misnamed.port}/", trusting)))
    assert_equal "ok", call("https://localhost:#{misnamed.port}/", "#{trusting}, verify_host=?0").body
    assert_match(/\Atls;/, error(call("https://localhost:#{stranger.port}/", "#{trusting}, verify_host=?0")), "the chain still is")
    assert_equal "ok", call("https://localhost:#{misnamed.port}/", %(#{trusting}, sni="other.example")).body
  end

  def test_a_certificate_that_is_trusted_itself
    front
    key = OpenSSL::PKey::EC.generate("prime256v1")
    own = { "authority" => "CA:TRUE", "plain" => "CA:FALSE" }.to_h do |name, constraints|
      certificate = OpenSSL::X509::Certificate.new
      certificate.version, certificate.serial, certificate.public_key = 2, 1, key
      certificate.subject = certificate.issuer = OpenSSL::X509::Name.new([["CN", "localhost"]])
      certificate.not_before, certificate.not_after = Time.now - 60, Time.now + 3600
      factory = OpenSSL::X509::ExtensionFactory.new
      certificate.add_extension(factory.create_extension("subjectAltName", "DNS:localhost"))
      certificate.add_extension(factory.create_extension("basicConstraints", constraints, true))
      certificate.sign(key, "SHA256")
      File.write(File.join(@dir, "#{name}.pem"), certificate.to_pem)
      [name, certificate]
    end
    own.each do |name, certificate|
      to = secure(Authority.new, "x", change: ->(context) { context.cert, context.key = certificate, key }, &serving_ok)
      assert_equal "ok", call("https://localhost:#{to.port}/", %(ca_file="#{@dir}/#{name}.pem")).body, name
      assert_match(/not valid for name|NotValidForName/, error(call("https://127.0.0.1:#{to.port}/", %(ca_file="#{@dir}/#{name}.pem"))), name)
      assert_match(/\Atls;/, error(call("https://localhost:#{to.port}/", %(ca_file="#{@dir}/#{(own.keys - [name]).first}.pem"))).to_s, name) if name == "authority"
    end
  end

  def test_expired_certificates_and_changed_files
    front
    authority, other = Authority.new, Authority.new
    file = other.file(@dir)
    to = secure(authority, "localhost", &serving_ok)
    assert_match(/\Atls;/, error(call("https://localhost:#{to.port}/", %(ca_file="#{file}"))))
    File.write("#{file}.new", authority.certificate.to_pem)
    File.utime(Time.now + 5, Time.now + 5, "#{file}.new")
    File.rename("#{file}.new", file)
    assert_equal "ok", call("https://localhost:#{to.port}/", %(ca_file="#{file}")).body, "the file has changed"
    expired = lambda do |context|
      certificate = context.cert
      certificate.not_after = Time.now - 10
      certificate.sign(authority.instance_variable_get(:@key), "SHA256")
    end
    late = secure(authority, "localhost", change: expired, &serving_ok)
    assert_match(/\Atls;message="invalid peer certificate: certificate expired/, error(call("https://localhost:#{late.port}/", %(ca_file="#{file}"))))
    assert_match(/\Atls;message=/, error(call("https://localhost:#{to.port}/", %(ca_file="#{@dir}/none.pem"))))
  end

  def test_who_we_are
    front
    authority = Authority.new
    certificate, key = authority.issue("client")
    demanding = lambda do |context|
      context.verify_mode = OpenSSL::SSL::VERIFY_PEER | OpenSSL::SSL::VERIFY_FAIL_IF_NO_PEER_CERT
      context.cert_store = OpenSSL::X509::Store.new.tap { |store| store.add_cert(authority.certificate) }
    end
    to = secure(authority, "localhost", change: demanding) do |link, _, tls|
      link.answer(tls.peer_cert.subject.to_s) while link.head
    end
    trusting = %(ca_file="#{authority.file(@dir)}")
    der = ->(bytes) { ":#{[bytes].pack("m0")}:" }
    identity = "cert=#{der[OpenSSL::X509::Certificate.new(certificate).to_der]}, key=#{der[OpenSSL::PKey.read(key).private_to_der]}"
    assert_equal "/CN=client", call("https://localhost:#{to.port}/", "#{trusting}, #{identity}").body
    refute_equal 200, call("https://localhost:#{to.port}/", trusting).status, "that connection is not for everybody"
  end

  def test_sessions_are_resumed_and_versions_bounded
    front
    authority = Authority.new
    trusting = %(ca_file="#{authority.file(@dir)}")
    to = secure(authority, "localhost", change: ->(context) { context.max_version = :TLS1_2 }) do |link, _, tls|
      link.write(OK.sub("\r\n", "\r\nX-Resumed: #{tls.session_reused?}\r\nConnection: close\r\n")) if link.head
    end
    assert_equal "false", call("https://localhost:#{to.port}/", trusting)["x-resumed"]
    assert_equal "true", call("https://localhost:#{to.port}/", trusting)["x-resumed"]
    assert_match(/\Atls;/, error(call("https://localhost:#{to.port}/", %(#{trusting}, tls_min="1.3"))))
  end

  # --- what is kept

  CACHE = "egress_cache = \"4MB\"".freeze

  def kept(response) = told(response)["cache"]

  # Answers with these fields and a body that counts.
  def counting(*fields)
    number = 0
    answering { |*| "HTTP/1.1 200 OK\r\n#{fields.map { |field| "#{field}\r\n" }.join}Content-Length: 1\r\n\r\n#{number += 1}" }
  end

  def test_nothing_is_kept_unless_it_is_asked_for
    front
    to = counting("Cache-Control: max-age=60")
    assert_equal %w[1 2], Array.new(2) { call("#{to.url}/").body }
  end

  def test_what_may_be_kept_for_one_user_is
    front(CACHE)
    to = counting("Cache-Control: private, max-age=60", "X-Own: 1")
    assert_equal "1", call("#{to.url}/a?b").body
    answer = caller_.call("#{to.url}/a?b")
    assert_equal ["1", %("hit"), "1"], [answer.body, kept(answer), answer["x-own"]]
    assert_operator Integer(answer["age"]), :<=, 30
    assert_equal ["", %("hit")], [(head = call("#{to.url}/a?b", method: "HEAD")).body, kept(head)]
    # What else could be the same, and is not.
    others = [[{ "Authorization" => "Bearer x" }, nil], [{ "Cookie" => "a=b" }, nil], [{ "Cache-Control" => "no-cache" }, nil], [{}, "cache=?0"], [{}, "http=\"1.1\""]]
    others.each_with_index { |(fields, wanted), index| assert_equal (index + 2).to_s, call("#{to.url}/a?b", wanted, fields: fields).body }
    assert_equal "2", call("#{to.url}/a?b", fields: { "Authorization" => "Bearer x" }).body
    # A change drops all of them.
    call("#{to.url}/a?b", method: "POST", body: "x")
    assert_equal %w[8 9], [call("#{to.url}/a?b"), call("#{to.url}/a?b", fields: { "Authorization" => "Bearer x" })].map(&:body)
  end

  def test_what_may_not_be_kept_is_not
    front(CACHE)
    ["Cache-Control: no-store, max-age=60", "Cache-Control: s-maxage=60", "X: y", "Set-Cookie: session=1; HttpOnly\r\nCache-Control: max-age=60", "Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT"].each do |fields|
      to = counting(*fields)
      assert_equal %w[1 2], Array.new(2) { call("#{to.url}/").body }, fields
    end
  end

  def test_what_varies_is_told_apart
    front(CACHE)
    to = counting("Cache-Control: max-age=60", "Vary: Accept-Language")
    asked = %w[de en de en fr].map { |language| call("#{to.url}/", fields: { "Accept-Language" => language }).body }
    assert_equal %w[1 2 1 2 3], asked
  end

  def test_what_is_stale_is_asked_about
    front(CACHE)
    down = false
    to = answering do |head, _|
      if down then "HTTP/1.1 500 Down\r\nContent-Length: 0\r\n\r\n"
      elsif head["if-none-match"] == "\"1\"" then "HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\nX-New: 1\r\n\r\n"
      else OK.sub("\r\n", "\r\nETag: \"1\"\r\nCache-Control: max-age=0, stale-if-error=60\r\n")
      end
    end
    assert_equal "ok", call("#{to.url}/").body
    answer = call("#{to.url}/")
    assert_equal ["ok", %("revalidated"), "1"], [answer.body, kept(answer), answer["x-new"]]
    down = true
    answer = call("#{to.url}/")
    assert_equal [200, "ok", %("stale")], [answer.status, answer.body, kept(answer)]
    assert_equal 500, call("#{to.url}/other").status
    # Conditions of the caller's own are his affair.
    down = false
    assert_equal 304, call("#{to.url}/", fields: { "If-None-Match" => "\"1\"" }).status
  end

  def test_calls_for_the_same_wait_for_one_answer
    front(CACHE)
    go = Queue.new
    to = answering { |*| go.pop && OK.sub("\r\n", "\r\nCache-Control: max-age=60\r\n") }
    callers = Array.new(8) { caller_ }
    callers.each { |one| one.ask("#{to.url}/") }
    take(@asked)
    refute callers.last.io.wait_readable(0.2)
    go << true
    assert_equal ["ok"], callers.map { |one| one.response.body }.uniq
    assert_empty @asked
    # What was not kept once is asked for side by side.
    to = answering { |*| go.pop && OK }
    go << true
    call("#{to.url}/live")
    take(@asked)
    callers.each { |one| one.ask("#{to.url}/live") }
    8.times { take(@asked) }
    8.times { go << true }
    assert_equal ["ok"], callers.map { |one| one.response.body }.uniq
  end

  # --- proxies

  def test_a_proxy_is_asked_for_a_tunnel_or_for_the_page
    front
    authority = Authority.new
    hidden = secure(authority, "hidden.example", &serving_ok)
    lines = Queue.new
    proxy = origin do |link, _|
      head = link.head
      lines << [head.line, head["proxy-authorization"]]
      if head.line.start_with?("CONNECT")
        link.write("HTTP/1.1 200 Go\r\n\r\n")
        to = TCPSocket.new("127.0.0.1", hidden.port)
        Thread.new { IO.copy_stream(link.io, to) }
        IO.copy_stream(to, link.io)
      else
        link.write(OK)
      end
    end
    through = %(proxy="http://me:pw@127.0.0.1:#{proxy.port}")
    assert_equal "ok", call("https://hidden.example:444/", %(#{through}, ca_file="#{authority.file(@dir)}")).body
    assert_equal ["CONNECT hidden.example:444 HTTP/1.1", "Basic bWU6cHc="], take(lines)
    assert_equal "ok", call("http://plain.example/x?y", through).body
    assert_equal ["GET http://plain.example/x?y HTTP/1.1", "Basic bWU6cHc="], take(lines)
    refusing = origin { |link, _| link.head && link.write("HTTP/1.1 403 Not you\r\nContent-Length: 0\r\n\r\n") }
    assert_equal %(proxy;status=403;message="Not you"), error(call("https://x.example/", %(proxy="http://127.0.0.1:#{refusing.port}")))
  end

  # --- HTTP/2

  def http2(authority, &script)
    secure(authority, "localhost", alpn: ["h2"]) do |_, number, tls|
      script.call(Http2Server.new(tls), number)
    end
  end

  def test_calls_share_one_connection_of_http2
    front
    authority = Authority.new
    trusting = %(ca_file="#{authority.file(@dir)}")
    all = Queue.new
    to = http2(authority) do |server, _|
      # None is answered before all are there.
      asked = Array.new(20) { server.request.tap { |stream, fields| all << fields } }
      asked.each { |stream, fields| server.answer(stream, fields[":path"]) }
      server.rest
    end
    callers = Array.new(20) { caller_ }
    callers.each_with_index { |one, index| one.ask("https://localhost:#{to.port}/#{index}", trusting, fields: { "Host" => "virtual.example" }) }
    answers = callers.map(&:response)
    assert_equal Array.new(20) { |index| "/#{index}" }, answers.map(&:body)
    assert_equal [%("2")], answers.map { |answer| told(answer)["version"] }.uniq
    assert_equal 1, answers.count { |answer| told(answer)["new"] == "?1" }
    assert_equal 1, to.connections
    fields = take(all)
    assert_equal ["virtual.example", "https", nil], fields.values_at(":authority", ":scheme", "host")
  end

  def test_what_an_http2_upstream_has_not_looked_at_is_asked_again
    front
    authority = Authority.new
    trusting = %(ca_file="#{authority.file(@dir)}")
    refuse = lambda do |server, stream|
      server.refuse(stream)
      server.answer(server.request.first, "second")
    end
    { refused: [1, refuse], gone: [2, ->(server, _) { server.go_away(0) }] }.each do |name, (connections, refusing)|
      to = http2(authority) do |server, number|
        stream, = server.request
        number == 1 ? refusing.call(server, stream) : server.answer(stream, "second")
        server.rest
      end
      answer = call("https://localhost:#{to.port}/", trusting, method: "POST", body: "once")
      assert_equal [200, "second"], [answer.status, answer.body], name
      assert_equal connections, to.connections, name
    end
  end

  def test_a_stream_of_http2_that_breaks
    front
    authority = Authority.new
    trusting = %(ca_file="#{authority.file(@dir)}")
    to = http2(authority) do |server, _|
      while (stream, fields = server.request)
        stream.headers({ ":status" => "200" }, end_stream: false) if fields[":path"] == "/late"
        stream.close(:internal_error)
      end
    end
    assert_match(/\Aprotocol;message=".*INTERNAL_ERROR|internal error/, error(call("https://localhost:#{to.port}/", trusting)))
    assert_raises(EOFError) { caller_.call("https://localhost:#{to.port}/late", trusting) }
    assert_equal 1, to.connections
  end

  def test_http2_is_not_offered_to_who_wants_http1
    front
    authority = Authority.new
    to = secure(authority, "localhost", alpn: %w[h2 http/1.1]) do |link, _, tls|
      link.answer(tls.alpn_protocol.to_s) while link.head
    end
    assert_equal "http/1.1", call("https://localhost:#{to.port}/", %(ca_file="#{authority.file(@dir)}", http="1.1")).body
  end
end
