# A site over several hosts: which one gets a request, what becomes of requests when a host fails, and how hosts go out and come back.
require_relative "../support/asking"
require_relative "../support/proxied_site"
require_relative "../support/web_socket"

class BalanceTest < Minitest::Test
  include ProxiedSite
  include Asking

  # A host is out after three failures in a row; on a machine that stops for seconds it may be tried again meanwhile.
  FAILURES = (3..6)

  def teardown
    super
    Array(@waiting).each { |queue| 64.times { queue << :go } }
  end

  # A host that answers with its name, and notes the requests that it got. The block, if there is one, may answer in its place: it
  # gets the connection and the request's head, and says whether it did.
  def host(name, socket = nil, &block)
    seen = Queue.new
    made = origin(*socket) do |link, _|
      while (head = link.head)
        link.body(head)
        seen << head.line unless head["user-agent"] == "paceline-check"
        link.answer(name) unless block&.call(link, head)
      end
    end
    made.define_singleton_method(:seen) { seen }
    made
  end

  # A host that takes no connection.
  def refusing = TCPServer.open("127.0.0.1", 0) { |socket| "http://127.0.0.1:#{socket.addr[1]}" }

  def balanced(*hosts, toml: "", env: {})
    urls = hosts.map { |host| host.respond_to?(:url) ? host.url : host }
    config = "front_threads = 1\n[[site]]\nupstream = #{urls.inspect}\n#{toml}"
    @server = serve(app({ "paceline.toml" => config }), ready: false, env: env)
  end

  def post(body = "hello", fields = "") = wire("POST / HTTP/1.1\r\nHost: shop.test\r\nContent-Length: #{body.bytesize}\r\n#{fields}\r\n#{body}")

  # How the hosts stand, by their URLs.
  def standing = control_json(@server, "/status")["sites"].values.first["upstream"].to_h { |host| [host["host"], host] }

  # Repeats the request until the block is true of its response; returns all responses.
  def until_one(answers = [])
    eventually("such an answer") { yield answers.push(get).last }
    answers
  end

  def test_hosts_share_the_requests_and_the_log_names_them
    one, other = host("one"), host("other")
    balanced(one, other)
    answers = Array.new(60) { get }
    assert_equal %w[one other], answers.map(&:body).uniq.sort
    assert_equal 60, one.seen.size + other.seen.size
    @server.wait_for(/ site=\S+ upstream=#{Regexp.escape(one.url)} /)
    ports = [one, other].map { |host| host.port.to_s }
    assert(answers.none? { |answer| answer.fields.any? { |_, value| ports.any? { |port| value.include?(port) } } })
    assert_equal [60, 0, %w[up]], standing.values.then { |all| [all.sum { |host| host["requests"] }, all.sum { |host| host["pending"] }, all.map { |host| host["state"] }.uniq] }
    metrics = control(@server, "/metrics")[1]
    assert_match(/^paceline_upstream_requests_total\{site="[^"]+",host="#{Regexp.escape(one.url)}"\} \d+$/, metrics)
  end

  def test_a_slow_host_gets_few_requests
    slow = host("slow") { sleep 0.1; false }
    balanced(slow, host("fast"))
    bodies = Array.new(200) { get.body }
    assert_includes bodies, "slow"
    assert_operator bodies.count("slow"), :<, 40
  end

  def test_a_request_waits_where_fewer_wait
    @waiting = [held = Queue.new]
    entered = Queue.new
    busy = host("busy") { |_, head| head.line.start_with?("GET /hold") && (entered << :in) && held.pop && false }
    other = host("other") { |_, head| head.line.start_with?("GET /hold") && (entered << :in) && held.pop && false }
    balanced(busy, other)
    first = open_request("/hold")
    take(entered)
    free = busy.seen.empty? ? "busy" : "other"
    # As many as it takes to see that it is no chance.
    assert_equal [free], Array.new(20) { get.body }.uniq
    held << :go
    refute_equal free, Wire.response(first).body
  end

  def test_a_host_that_is_not_there_costs_no_request
    alive = host("alive")
    balanced(refusing, alive)
    assert_equal ["alive"], (Array.new(20) { get.body } + Array.new(20) { post.body }).uniq
    @server.wait_for(/upstream http\S+ gets no requests for a while: it failed several in a row, the last one: Connection refused/)
    assert_includes FAILURES, standing.values.first["failures"]
  end

  def test_a_host_that_dies_loses_no_idempotent_request
    dying = host("dying")
    # Slower, so that the other one gets the requests.
    staying = host("staying") { sleep 0.02; false }
    balanced(dying, staying)
    until_one { |answer| answer.body == "dying" }
    dying.close
    assert_equal [[200, "staying"]], Array.new(30) { get.then { |answer| [answer.status, answer.body] } }.uniq
  end

  def test_what_a_host_has_not_answered_goes_to_another_if_it_is_idempotent
    breaking = host("breaking") { |link, _| link.io.close }
    working = host("working")
    balanced(breaking, working)
    answers = Array.new(60) { get.then { |answer| [answer.status, answer.body] } }
    assert_equal [[200, "working"]], answers.uniq
    assert_includes FAILURES, breaking.seen.size
  end

  def test_a_post_that_was_sent_is_never_sent_again
    breaking = host("breaking") { |link, _| link.io.close }
    working = host("working")
    balanced(breaking, working)
    statuses = Array.new(40) { post.status }
    assert_includes FAILURES, breaking.seen.size
    assert_equal [breaking, working].map { |host| host.seen.size }, [502, 200].map { |status| statuses.count(status) }
  end

  def test_an_answer_that_has_begun_is_never_asked_for_again
    breaking = host("breaking") { |link, _| link.write("HTTP/1.1 200 OK\r\nContent-") && link.io.close }
    working = host("working")
    balanced(breaking, working)
    statuses = Array.new(40) { get.status }
    assert_includes FAILURES, breaking.seen.size
    assert_equal [breaking, working].map { |host| host.seen.size }, [502, 200].map { |status| statuses.count(status) }
  end

  def test_a_request_that_kills_its_host_is_sent_three_times_at_most
    hosts = Array.new(5) { |number| host(number.to_s) { |link, _| link.io.close } }
    balanced(*hosts)
    assert_equal 502, get.status
    assert_equal 3, hosts.sum { |host| host.seen.size }
  end

  def test_a_request_that_kills_its_host_is_sent_three_times_at_most_also_on_kept_connections
    hosts = Array.new(5) { |number| host(number.to_s) { |link, head| head.line.start_with?("GET /kill ") && link.io.close } }
    balanced(*hosts)
    eventually("a connection to each host is kept") { get && hosts.none? { |host| host.seen.empty? } }
    hosts.each { |host| host.seen.clear }
    assert_equal 502, get("/kill").status
    assert_equal 3, hosts.sum { |host| host.seen.size }
  end

  def test_a_client_that_is_slow_or_leaves_is_no_failure_of_its_host
    @waiting = [held = Queue.new]
    early = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello"
    hosts = Array.new(2) do
      origin do |link, _|
        while (head = link.head)
          link.write(early) if head.line.start_with?("PUT /early ")
          link.body(head)
          head.line.start_with?("GET /hold ") ? held.pop : link.answer("ok")
        end
      end
    end
    put = lambda do |path, sent|
      TCPSocket.new("127.0.0.1", @server.port).tap { |socket| socket.write("PUT #{path} HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 300000\r\n\r\n", "x" * sent) }
    end
    balanced(*hosts, toml: "buffer_requests = false\n")
    leaving = Array.new(4) { put.call("/early", 100_000) }
    leaving.each { |socket| assert_match(/\AHTTP\/1.1 200 /, socket.gets) }
    leaving.each(&:close_write).each(&:read)
    eventually("no host has one") { standing.values.all? { |host| host["pending"].zero? } }
    assert_equal [[0, "up"]], standing.values.map { |host| host.values_at("failures", "state") }.uniq
    balanced(*hosts, toml: "buffer_requests = false\napp_hard_timeout = \"1s\"\n")
    slow = Array.new(4) { put.call("/", 100_000) }
    assert_equal [504], slow.map { |socket| Wire.response(socket).status }.uniq
    assert_equal [[0, "up"]], standing.values.map { |host| host.values_at("failures", "state") }.uniq
    assert_equal 504, get("/hold").status
    assert_equal 1, standing.values.sum { |host| host["failures"] }
  end

  def test_a_large_body_goes_to_another_host_if_it_was_kept
    large = Random.new(1).bytes(300_000)
    put = -> { wire("PUT / HTTP/1.1\r\nHost: shop.test\r\nContent-Length: #{large.bytesize}\r\n\r\n#{large}") }
    balanced(host("breaking") { |link, _| link.io.close }, host("working"))
    assert_equal [[200, "working"]], Array.new(20) { put.call.then { |answer| [answer.status, answer.body] } }.uniq
    balanced(host("breaking") { |link, _| link.io.close }, host("working"), toml: "buffer_requests = false\n")
    assert_equal [200, 502], Array.new(20) { put.call.status }.uniq.sort
  end

  def test_all_out_is_all_in
    broken = true
    hosts = %w[one other].map { |name| host(name) { |link, _| broken && link.answer("no", status: "503 Service Unavailable") } }
    balanced(*hosts)
    assert_equal [503], Array.new(20) { get.status }.uniq
    @server.wait_for(/all hosts of upstream \S+, \S+ are out, so all get requests/)
    broken = false
    assert_equal 200, get.status
    @server.wait_for(/upstream http\S+ answers, and gets requests again/)
    # The other one is tried again by itself.
    bodies = []
    eventually("both to answer") { (bodies |= [get.body]).size == 2 }
    assert_equal %w[one other], bodies.sort
  end

  def test_a_check_that_fails_drains_a_host_until_it_passes
    @waiting = [held = Queue.new]
    entered = Queue.new
    status = "200 OK"
    checked = host("checked") do |link, head|
      next link.answer("", status: status) if head.line.start_with?("GET /up ")
      next unless head.line.start_with?("GET /hold")
      entered << head
      held.pop
      false
    end
    other = host("other")
    balanced(checked, other, toml: "host = [\"*.test\", \"shop.test\"]\nupstream_check = \"/up\"\nupstream_check_interval = \"100ms\"\n")
    running = nil
    while checked.seen.empty?
      before = other.seen.size
      running = open_request("/hold", "Host: shop.test")
      eventually("a host has it") { checked.seen.size > 0 || other.seen.size > before }
    end
    take(entered)
    status = "503 Service Unavailable"
    @server.wait_for(/upstream #{Regexp.escape(checked.url)} gets no requests: its health check failed: GET \/up: status 503/)
    assert_equal ["other"], Array.new(30) { get.body }.uniq
    assert_equal ["failing", 1], standing[checked.url].values_at("state", "pending")
    held << :go
    assert_equal "checked", Wire.response(running).body
    status = "302 Found"
    @server.wait_for(/upstream #{Regexp.escape(checked.url)} passes its health check, and gets requests again/)
    until_one { |answer| answer.body == "checked" }
  end

  def test_checks_name_the_site_and_themselves
    heads = Queue.new
    first = origin { |link, _| (heads << link.head) && link.answer }
    balanced(first, host("other"), toml: "host = [\"*.test\", \"shop.test\"]\nupstream_check = \"/up?a=1\"\n")
    head = take(heads)
    assert_equal ["GET /up?a=1 HTTP/1.1", "shop.test", "paceline-check", "close"], [head.line, *%w[host user-agent connection].map { |name| head[name] }]
  end

  def test_a_websocket_counts_as_pending_until_it_ends
    upgrading = lambda do |name|
      host(name) do |link, head|
        next unless head["upgrade"]
        accept = [Digest::SHA1.digest(head["sec-websocket-key"] + WebSocket::GUID)].pack("m0")
        link.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: #{accept}\r\n\r\n")
        link.io.read
        raise IOError, "the client has gone"
      end
    end
    hosts = [upgrading.call("one"), upgrading.call("other")]
    balanced(*hosts)
    sockets = Array.new(2) { WebSocket.new("ws://127.0.0.1:#{@server.port}/cable") }
    assert_equal [1, 1], standing.values.map { |host| host["pending"] }
    sockets.each(&:close)
    eventually("no host has one") { standing.values.all? { |host| host["pending"].zero? } }
  end

  def test_a_visitor_stays_with_a_host_until_it_is_out
    cookies = Queue.new
    hosts = %w[one other third].map { |name| host(name) { |_, head| cookies << head["cookie"] && false } }
    balanced(*hosts, toml: "upstream_sticky = \"cookie\"\n", env: { "XDG_STATE_HOME" => app })
    first = get
    cookie = first["set-cookie"]
    assert_match(/\Apaceline_host=[\w-]{12}; Path=\/; HttpOnly; SameSite=Lax\z/, cookie)
    sent = "Cookie: a=b; #{cookie[/\A[^;]+/]}\r\n"
    answers = Array.new(20) { get("/", sent) }
    assert_equal [[first.body, nil]], answers.map { |answer| [answer.body, answer["set-cookie"]] }.uniq
    assert_equal [nil, *["a=b"] * 20], Array.new(21) { take(cookies) }
    hosts.find { |host| host.seen.size == 21 }.close
    elsewhere = get("/", sent)
    assert_equal 200, elsewhere.status
    refute_equal first.body, elsewhere.body
    assert_match(/\Apaceline_host=/, elsewhere["set-cookie"])
    refute_equal cookie, elsewhere["set-cookie"]
  end

  def test_a_page_for_everybody_sets_no_cookie
    hosts = %w[one other].map { |name| host(name) { |link, _| link.answer(name, fields: ["Cache-Control: public, max-age=60"]) } }
    balanced(*hosts, toml: "upstream_sticky = \"cookie\"\n", env: { "XDG_STATE_HOME" => app })
    answers = [get, get("/", "Cookie: paceline_host=made-up\r\n")]
    assert_equal [nil, nil], answers.map { |answer| answer["set-cookie"] }
    assert_match(/\Apaceline; hit/, answers.last["cache-status"])
  end

  # /etc/hosts of the server alone: where a test may not have mounts of its own it proves nothing.
  def test_hosts_of_a_name_come_and_go
    need_mounts
    port = (first = host("first", [TCPServer.new("127.0.0.1", 0)])).port
    host("second", [TCPServer.new("127.0.0.2", port)])
    dir = app("hosts" => "127.0.0.1 localhost\n127.0.0.1 app.test-hosts\n",
      "paceline.toml" => "front_threads = 1\n[[site]]\nupstream = \"dns:app.test-hosts:#{port}\"\n")
    mounted = ["unshare", "-m", "sh", "-c", 'mount --make-rprivate / && mount --bind hosts /etc/hosts && exec "$0" "$@"']
    @server = serve(dir, ready: false, within: mounted)
    assert_equal ["first"], Array.new(5) { get.body }.uniq
    File.write(File.join(dir, "hosts"), "127.0.0.1 localhost\n127.0.0.1 app.test-hosts\n127.0.0.2 app.test-hosts\n")
    @server.wait_for(%r{upstream app\.test-hosts: http://127\.0\.0\.2:#{port} has come})
    until_one { |answer| answer.body == "second" }
    File.write(File.join(dir, "hosts"), "127.0.0.1 localhost\n127.0.0.2 app.test-hosts\n")
    @server.wait_for(%r{upstream app\.test-hosts: http://127\.0\.0\.1:#{port} has gone})
    assert_equal ["second"], Array.new(10) { get.body }.uniq
    File.write(File.join(dir, "hosts"), "127.0.0.1 localhost\n")
    @server.wait_for(/upstream app\.test-hosts: the name can't be resolved, its hosts stay as they were/)
    assert_equal "second", get.body
    refute_nil first
  end

  def test_settings_are_checked_before_anything_is_served
    out = lambda do |toml|
      dir = app("paceline.toml" => "[[site]]\n#{toml}\n")
      IO.popen([BIN, "check"], chdir: dir, err: %i[child out], &:read)
    end
    assert_match(/"upstream" names http:\/\/a twice/, out['upstream = ["http://a", "http://a:80"]'])
    assert_match(/"upstream_check" has no effect without several hosts in upstream/, out["upstream = \"http://a\"\nupstream_check = \"/up\""])
    assert_match(/^site    \S+: http:\/\/a, dns:b:81, for every host\nno problems found/, out['upstream = ["http://a", "dns:b:81"]'])
  end
end
