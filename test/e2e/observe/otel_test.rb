# OpenTelemetry: spans at a scripted collector, and what the application and an upstream are told of the trace.
require "json"
require_relative "../support/scenario"

class OtelTest < Minitest::Test
  include Scenario

  APP = <<~'RUBY'
    run lambda { |env|
      raise "broken" if env["PATH_INFO"] == "/broken"
      kept = env["PATH_INFO"] == "/kept" ? { "cache-control" => "max-age=60" } : {}
      [200, kept, [env.values_at("HTTP_TRACEPARENT", "HTTP_TRACESTATE").inspect]]
    }
  RUBY

  TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
  CALLER = "00f067aa0ba902b7"
  PARENT = "00-#{TRACE}-#{CALLER}-01"

  # A collector. `answers`: the statuses of its first answers; then it is 200.
  class Collector
    attr_reader :requests

    def initialize(answers = [])
      @listener = TCPServer.new("127.0.0.1", 0)
      @requests = Queue.new
      @thread = Thread.new { loop { serve(@listener.accept, answers.shift || 200) } }
    end

    def url = "http://127.0.0.1:#{@listener.addr[1]}"

    def close
      @thread.kill
      @listener.close
    end

    # Spans of the requests that come until the block is content with all there are.
    def spans
      spans = []
      Timeout.timeout(Scenario::PATIENCE) do
        until yield(spans)
          _, body = @requests.pop
          spans.concat(body.fetch("resourceSpans").flat_map { |resource| resource["scopeSpans"].flat_map { |scope| scope["spans"] } })
        end
      end
      spans
    end

    private

    def serve(socket, status)
      head = socket.gets("\r\n\r\n")
      body = socket.read(Integer(head[/^Content-Length: (\d+)/i, 1]))
      socket.write("HTTP/1.1 #{status} X\r\nContent-Length: 2\r\n\r\n{}")
      socket.close
      @requests << [head, JSON.parse(body)] if status == 200
    end
  end

  def collector(*answers)
    @collector = Collector.new(answers)
  end

  def teardown
    @collector&.close
    super
  end

  def serve_app(env = {}, *arguments, **options) = serve(app("config.ru" => APP), *arguments, env: env, **options)

  def named(spans, name) = spans.find { |span| span["name"] == name }

  def attributes(span) = span["attributes"].to_h { |one| [one["key"], one["value"].values.first] }

  def test_a_request_in_its_callers_trace
    collector
    server = serve_app({ "OTEL_SERVICE_NAME" => "my shop" }, "--otlp-endpoint", @collector.url)
    told = server.get("/orders/17?x=1", "traceparent" => PARENT, "tracestate" => "a=1,b=2", "User-Agent" => "test").body
    head, body = Timeout.timeout(PATIENCE) { @collector.requests.pop }
    assert_match(%r{\APOST /v1/traces HTTP/1.1\r\n}, head)
    assert_match(%r{^Content-Type: application/json\r$}, head)
    resource = body["resourceSpans"].first
    assert_equal "my shop", attributes(resource["resource"])["service.name"]
    spans = resource["scopeSpans"].first["spans"]
    assert_equal ["GET /orders/*", "queue", "app"], spans.map { |span| span["name"] }
    request, queue, in_app = spans
    assert_equal [TRACE], spans.map { |span| span["traceId"] }.uniq
    assert_equal [CALLER, request["spanId"], request["spanId"]], spans.map { |span| span["parentSpanId"] }
    assert_equal ["00-#{TRACE}-#{request["spanId"]}-01", "a=1,b=2"].inspect, told, "the app is a child of the server's span"
    assert_equal [2, 1, 1], spans.map { |span| span["kind"] }
    times = [request["startTimeUnixNano"], queue["startTimeUnixNano"], queue["endTimeUnixNano"], in_app["startTimeUnixNano"], in_app["endTimeUnixNano"], request["endTimeUnixNano"]].map { |time| Integer(time) }
    assert_equal times.sort, times
    assert_in_delta Time.now.to_f, times.first / 1e9, PATIENCE
    found = attributes(request)
    wanted = { "http.request.method" => "GET", "url.path" => "/orders/17", "url.query" => "x=1", "http.route" => "/orders/*", "url.scheme" => "http",
               "http.response.status_code" => "200", "client.address" => "127.0.0.1", "user_agent.original" => "test", "paceline.kind" => "app" }
    assert_equal wanted, found.slice(*wanted.keys)
    assert_equal %w[paceline.allocations paceline.chunks paceline.gc_ms], attributes(in_app).keys.sort
  end

  def test_failures_cached_pages_and_a_trace_of_its_own
    collector
    server = serve_app({ "OTEL_EXPORTER_OTLP_ENDPOINT" => @collector.url }, "--access-log", "off")
    %w[/broken /kept /kept].each { |path| server.get(path) }
    spans = @collector.spans { |got| got.count { |span| span["kind"] == 2 } == 3 }
    broken = named(spans, "GET /broken")
    assert_equal [2, "500", nil], [broken["status"]["code"], attributes(broken)["error.type"], broken["parentSpanId"]]
    kept = spans.select { |span| span["kind"] == 2 && attributes(span)["url.path"] == "/kept" }
    assert_equal ["uri-miss:stored", "hit"], kept.map { |span| attributes(span)["paceline.cache"] }
    assert_equal 3, spans.select { |span| span["kind"] == 2 }.map { |span| span["traceId"] }.uniq.size
  end

  def test_what_is_not_sampled_is_not_told
    collector
    server = serve_app({ "OTEL_TRACES_SAMPLER_ARG" => "0" }, "--otlp-endpoint", @collector.url)
    assert_match(/\A\["00-\h{32}-\h{16}-00", nil\]\z/, server.get("/").body)
    assert_match(/"00-#{TRACE}-\h{16}-00"/, server.get("/", "traceparent" => PARENT.sub(/01\z/, "00")).body)
    server.get("/sampled", "traceparent" => PARENT)
    spans = @collector.spans(&:any?)
    assert_equal ["GET /sampled"], spans.select { |span| span["kind"] == 2 }.map { |span| span["name"] }
  end

  def test_an_upstream_is_told_and_its_time
    collector
    upstream = serve_app
    server = serve(app, "--upstream", "http://127.0.0.1:#{upstream.port}", "--otlp-endpoint", @collector.url, ready: false)
    told = server.get("/", "traceparent" => PARENT).body
    spans = @collector.spans(&:any?)
    request = spans.find { |span| span["kind"] == 2 }
    assert_equal ["00-#{TRACE}-#{request["spanId"]}-01", nil].inspect, told
    assert_equal request["spanId"], named(spans, "upstream")["parentSpanId"]
  end

  def test_a_collector_that_is_busy_is_asked_again_and_one_that_refuses_is_not
    collector(503, 200, 400)
    server = serve_app({}, "--otlp-endpoint", @collector.url)
    server.get("/first")
    assert named(@collector.spans { |spans| spans.any? }, "GET /first")
    server.get("/second")
    server.wait_for(/#{@collector.url}\/v1\/traces does not take traces: it answers 400; 3 spans were dropped/)
    server.get("/third")
    assert named(@collector.spans { |spans| spans.any? }, "GET /third")
    server.get("/last")
    server.stop
    assert named(@collector.spans { |spans| spans.any? }, "GET /last"), "what waits when the server is told to stop"
  end

  def test_without_a_collector_a_trace_goes_through_unchanged
    server = serve_app
    assert_equal [PARENT, "a=1"].inspect, server.get("/", "traceparent" => PARENT, "tracestate" => "a=1").body
    assert_equal [nil, nil].inspect, server.get("/").body
  end

  def test_a_collector_of_the_applications_own_is_no_reason_not_to_serve
    server = serve_app({ "OTEL_EXPORTER_OTLP_ENDPOINT" => "https://collector.test:4317" })
    server.wait_for(/OTEL_EXPORTER_OTLP_ENDPOINT=https:\/\/collector.test:4317 ignored: must be a URL like/)
    assert_equal PARENT, server.get("/", "traceparent" => PARENT).body[/00-[^"]+/]
  end
end
