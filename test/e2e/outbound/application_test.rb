# Outbound calls of a served application: what its log and the metrics tell of them, and what they inherit from the request.
require_relative "../support/egress_scenario"
require "json"

class EgressApplicationTest < Minitest::Test
  include EgressScenario

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
    @server.wait_for(%r{"GET /orders/7 .* outbound=15 new_conn=2 outbound_ms=412$.*"GET /orders/7}m)
    @server.wait_for(/ opened 15 TLS /)
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
    @server = serve(@dir, "--app-hard-timeout", "3s")
    eventually("an answer in time") { @server.get("/").body == "Paceline::HTTP::DeadlineExceeded" }
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
  rescue Minitest::Assertion, RuntimeError
    false
  end
end
