# frozen_string_literal: true

require_relative "support/case"
require_relative "support/tunnel"

# Proxies, given or from the environment, by each way.
class OutboundProxyTest < OutboundTest
  WAYS = %i[plain lent front].freeze

  def test_a_given_proxy
    seen = each_way do
      proxy = server
      response = Net::HTTP.new("api.test", 80, "127.0.0.1", proxy.port, "me", "secret").get("/echo")
      [response.code, proxy.asked.map { |asked| [asked.line, asked["Host"], asked["Proxy-Authorization"]] }]
    end
    assert_equal ["200", [["GET http://api.test/echo HTTP/1.1", "api.test", "Basic #{["me:secret"].pack("m0")}"]]], seen
  end

  def test_the_environment_s_proxy
    proxy = server
    ENV["http_proxy"] = "http://me:se%20cret@127.0.0.1:#{proxy.port}"
    ENV["no_proxy"] = "127.0.0.1"
    seen = each_way do
      direct = server
      codes = [Net::HTTP.get_response(URI("http://api.test/x")).code, Net::HTTP.get_response(URI(direct.url("/plain"))).code]
      [codes, proxy.asked.map { |asked| [asked.line, asked["Proxy-Authorization"]] }, direct.asked.map(&:line)]
    end
    assert_equal [%w[200 200], [["GET http://api.test/x HTTP/1.1", "Basic #{["me:se cret"].pack("m0")}"]], ["GET /plain HTTP/1.1"]], seen
  end

  def test_a_tunnel
    seen = each_way do
      https = server(tls: :yes)
      tunnel = Tunnel.new(credentials: "me:se:cret").tap { |one| @started << one }
      get = lambda do
        http = Net::HTTP.new("localhost", https.port, "127.0.0.1", tunnel.port, "me", "se:cret")
        http.use_ssl = true
        http.ca_file = Certificates.ca_file
        http.get("/plain")
      end
      [get.call.body, get.call.body, tunnel.asked[0].gsub(https.port.to_s, "PORT").lines.sort]
    end
    assert_equal %w[plain plain], seen.first(2)
  end

  def test_a_tunnel_that_is_refused
    seen = each_way do
      https = server(tls: :yes)
      tunnel = Tunnel.new(credentials: "me:secret").tap { |one| @started << one }
      http = Net::HTTP.new("localhost", https.port, "127.0.0.1", tunnel.port)
      http.use_ssl = true
      error = assert_raises(Net::HTTPClientException) { http.get("/plain") }
      [error.message, https.connections]
    end
    assert_equal ['407 "Proxy Authentication Required"', 0], seen
  end

  def test_a_proxy_that_is_not_there
    each_way do
      https = server(tls: :yes)
      http = Net::HTTP.new("localhost", https.port, "127.0.0.1", 1)
      http.use_ssl = true
      assert_raises(Errno::ECONNREFUSED) { http.get("/plain") }.message
    end
  end

  def test_tunnels_are_lent
    https = server(tls: :yes)
    tunnel = Tunnel.new.tap { |one| @started << one }
    Paceline::HTTP.install!
    get = lambda do |port|
      http = Net::HTTP.new("localhost", https.port, "127.0.0.1", port)
      http.use_ssl = true
      http.ca_file = Certificates.ca_file
      http.get("/plain").body
    end
    3.times { assert_equal "plain", get.call(tunnel.port) }
    assert_equal [1, 1], [tunnel.asked.size, https.connections]
    other = Tunnel.new.tap { |one| @started << one }
    get.call(other.port)
    assert_equal [1, 1, 2], [tunnel.asked.size, other.asked.size, https.connections]
  end

  private

  # What the block returns, which is the same whichever way.
  def each_way
    outcomes = WAYS.map do |way|
      egress = (front if way == :front)
      ENV["PACELINE_EGRESS"] = "off" unless egress
      way == :plain ? Paceline::HTTP.uninstall! : Paceline::HTTP.install!
      result = yield
      refute_empty egress.calls if egress
      Paceline::HTTP.close
      result
    end
    assert_equal [outcomes[0]], outcomes.uniq
    outcomes[0]
  end
end
