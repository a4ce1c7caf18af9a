# frozen_string_literal: true

require_relative "support/case"

# Faraday's adapter beside Faraday's own for Net::HTTP: the same responses and errors; connections that are lent; requests at once.
class OutboundFaradayTest < OutboundTest
  begin
    require "faraday"
    require "paceline/http/faraday"
    THERE = true
  rescue LoadError
    THERE = false
  end

  def setup
    skip "Faraday is not installed" unless THERE
    super
    @server = server
  end

  def teardown
    super if @started
  end

  # As net_http, in this process, and through a front.
  def same
    outcomes = %i[net_http paceline front].map do |way|
      front if way == :front
      ENV["PACELINE_EGRESS"] = "off" unless way == :front
      outcome { yield connection(way == :front ? :paceline : way) }
    end
    assert_equal outcomes[0], outcomes[1]
    assert_equal outcomes[0], outcomes[2]
    outcomes[0]
  ensure
    Paceline::HTTP.close
  end

  %w[/ /plain /utf8 /html /binary /nothing /big /chunked /until-close /informational /no-content /not-modified /gzip /deflate /gzip-broken /redirect /cookies /teapot /error /empty /reset
     /chunk-broken /bad-status /short].each do |path|
    define_method("test_get_#{path}") { same { |faraday| faraday.get(path) } }
    define_method("test_streamed_#{path}") do
      same do |faraday|
        got = []
        response = faraday.get(path) { |request| request.options.on_data = proc { |piece, size, env| got << [piece.dup, size, env&.status] } }
        [response, got.map(&:first).join, got.last&.drop(1)]
      end
    end
  end

  def test_methods_and_bodies
    same { |faraday| %i[get head delete].map { |method| faraday.public_send(method, "/echo", { a: 1 }, "X-One" => "1") } }
    same { |faraday| %i[post put patch].map { |method| faraday.public_send(method, "/echo", { a: 1, b: ["ü"] }) } }
    same { |faraday| faraday.post("/echo", "{}", "Content-Type" => "application/json") }
    same { |faraday| faraday.post("/echo") }
    same { |faraday| faraday.run_request(:options, "/echo", nil, nil) }
    same { |faraday| faraday.post("/echo", StringIO.new("stream"), "Content-Length" => "6", "Content-Type" => "text/plain") }
  end

  def test_options
    assert_equal "Faraday::TimeoutError", same { |faraday| faraday.get("/stall") { |request| request.options.timeout = 0.05; request.options.open_timeout = 10 } }[0]
    assert_equal "Faraday::ConnectionFailed", same { |faraday| faraday.get("http://127.0.0.1:1/") }[0]
    same { |faraday| faraday.get("http://api.test/echo") { |request| request.options.proxy = Faraday::ProxyOptions.from(@server.url) } }
    https = server(tls: :client)
    identity = { ca_file: Certificates.ca_file, client_cert: Certificates.client.certificate, client_key: Certificates.client.key }
    assert_equal 200, same { |faraday| Faraday.new(https.url, ssl: identity) { |builder| builder.adapter(faraday.builder.adapter.name[/Paceline/] ? :paceline : :net_http) }.get("/plain") }[:status]
    other = server(tls: :yes)
    assert_equal "Faraday::SSLError", same { |faraday| faraday.get(other.url("/plain")) }[0]
  end

  def test_the_settings_of_the_adapter
    yielded = nil
    faraday = Faraday.new(@server.url) { |builder| builder.adapter(:paceline) { |http| yielded = http } }
    faraday.get("/plain")
    assert_kind_of Net::HTTP, yielded
  end

  def test_connections_are_lent_whoever_asks
    10.times { Faraday.new(@server.url) { |builder| builder.adapter :paceline }.get("/plain") }
    assert_equal 1, @server.connections
  end

  def test_a_close_in_flight_does_not_reach_the_caller
    faraday = connection(:paceline)
    faraday.get("/race-later")
    assert_equal 200, faraday.get("/plain").status
    assert_equal(%w[/race-later /plain /plain], @server.asked.map(&:target))
  end

  [false, true].each do |by_front|
    define_method("test_in_parallel#{"_through_the_front" if by_front}") do
      front if by_front
      together = barrier(15)
      @server.define_singleton_method(:on_together) do |asked|
        together.call
        with("200 OK", asked.target)
      end
      faraday = connection(:paceline) { |builder| builder.use(Exclaiming) }
      completed = []
      responses = []
      faraday.in_parallel do
        responses = Array.new(15) { |number| faraday.get("/together?#{number}").on_complete { |env| completed << env.status } }
        refute responses.any?(&:finished?)
      end
      assert_equal Array.new(15) { |number| "/together?#{number}!" }, responses.map(&:body)
      assert_equal [200] * 15, completed
    end
  end

  def test_errors_in_parallel_come_when_all_are_done
    faraday = connection(:paceline)
    good = nil
    assert_raises(Faraday::ConnectionFailed) do
      faraday.in_parallel do
        faraday.get("http://127.0.0.1:1/")
        good = faraday.get("/big")
        faraday.get("/empty")
      end
    end
    assert_equal HostileServer::BIG, good.body
    # And nothing of it is left for the next time.
    faraday.in_parallel { good = faraday.get("/plain") }
    assert_equal "plain", good.body
    # Faraday 1 does not say that its block was left.
    return if Faraday::VERSION.start_with?("1.")

    assert_raises(RuntimeError) { faraday.in_parallel { faraday.get("/plain") && raise("within") } }
    @server.asked
    faraday.in_parallel { nil }
    assert_empty @server.asked
  end

  def test_response_middleware_raises
    faraday = connection(:paceline) { |builder| builder.response(:raise_error) }
    assert_raises(Faraday::ResourceNotFound) { faraday.get("/missing") }
    assert_raises(Faraday::ResourceNotFound) { faraday.in_parallel { faraday.get("/missing") } }
  end

  if THERE
    # A middleware of the usual kind.
    class Exclaiming < (defined?(Faraday::Response::Middleware) ? Faraday::Response::Middleware : Faraday::Middleware)
      def on_complete(env)
        env[:body] = "#{env[:body]}!"
      end
    end
  end

  # As faraday-net_http does it where Net::HTTP can (net-http 0.5).
  def test_tls_to_the_proxy
    kind = Struct.new(:host, :port, :proxy, :proxy_port, :user, :password, :no_proxy, :proxy_use_ssl) do
      def self.proxy_use_ssl = nil
    end
    asked = lambda do |url|
      env = Faraday::Env.from(url: URI("http://api.test/"), request: Faraday::RequestOptions.from(proxy: Faraday::ProxyOptions.from(url)))
      Paceline::HTTP::FaradayAdapter.new(nil).send(:net_http_connection, env)
    end
    Paceline::HTTP::Session.stub(:now, kind) do
      assert_equal ["proxy.test", 3128, true], asked.call("https://me:secret@proxy.test:3128").to_a.values_at(2, 3, 7)
      assert_nil asked.call("http://proxy.test:3128").proxy_use_ssl
    end
    assert_equal "proxy.test", asked.call("https://proxy.test:3128").proxy_address
  end

  private

  def connection(adapter)
    Faraday.new(@server.url) do |builder|
      builder.request :url_encoded
      yield builder if block_given?
      builder.adapter adapter
    end
  end

  def outcome
    describe(yield)
  rescue StandardError => e
    [e.class.name, e.message.gsub(/#<\w+:/, "#<socket:").gsub(/localhost:\d+/, "")]
  end

  def describe(got)
    case got
    when Faraday::Response
      { status: got.status, reason: got.reason_phrase, body: got.body, encoding: got.body&.encoding, headers: got.headers.to_h.reject { |name, _| name =~ /connection|keep-alive|transfer-encoding|trailer/i } }
    when Array then got.map { |one| describe(one) }
    else got
    end
  end
end
