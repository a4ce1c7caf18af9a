# Outbound calls through the front: what goes out and what comes back, byte by byte; connections that stay; what goes wrong; who may be asked.
require_relative "../support/egress_scenario"

class EgressTest < Minitest::Test
  include EgressScenario

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
    refute second.io.wait_readable(1)
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
    answer = call("#{to.url}/head", "deadline=0.5")
    assert_equal [504, "deadline"], [answer.status, error(answer)]
    assert_raises(EOFError) { caller_.call("#{to.url}/body", "deadline=2") }
  end

  def test_an_upstream_that_can_not_be_reached_is_left_alone_for_a_while
    front("egress_breaker = 2")
    nobody = TCPServer.new("127.0.0.1", 0).then { |server| server.addr[1].tap { server.close } }
    kinds = Array.new(3) { error(call("http://127.0.0.1:#{nobody}/")).split(";").first }
    assert_equal %w[connect connect open_circuit], kinds
    back = origin(TCPServer.new("127.0.0.1", nobody)) { |link, _| link.write(OK) while link.head }
    eventually("the circuit to close") { call("#{back.url}/").status == 200 }
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

  def test_a_folder_of_sites_sets_the_guard_for_itself
    to = answering
    dir = app("guarded/config.ru" => APP["config.ru"], "guarded/paceline.toml" => "egress_guard = true\n", "open/config.ru" => APP["config.ru"])
    server = serve(dir, "--sites", dir, ready: false)
    told = %w[guarded open].map do |site|
      socket = server.get("/", "Host" => site).body
      caller = EgressCaller.new(socket).tap { |made| (@callers ||= []) << made }
      caller.call("#{to.url}/")
    end
    assert_match(/\Adenied;address="127.0.0.1"/, error(told.first))
    assert_equal "ok", told.last.body
  end

  def test_a_call_may_ask_for_the_guard_itself
    front
    to = answering
    assert_equal "ok", call("#{to.url}/").body
    assert_match(/\Adenied;/, error(call("#{to.url}/", "guard")), "a kept connection is no way around it")
  end
end
