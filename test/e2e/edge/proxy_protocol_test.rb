# The PROXY protocol in front of HTTP and TLS: whose address counts, and what is not served.
require_relative "../support/scenario"
require_relative "../support/certificates"

class ProxyProtocolTest < Minitest::Test
  include Scenario

  ECHO = 'run ->(env) { [200, {}, [%w[REMOTE_ADDR SERVER_PORT rack.url_scheme].map { |name| env[name] }.join("|")]] }'.freeze
  REQUEST = "GET / HTTP/1.1\r\nHost: shop.test\r\nConnection: close\r\n\r\n".freeze
  SIGNATURE = "\r\n\r\n\0\r\nQUIT\n".b.freeze

  def start(toml = "", bind: "tcp://127.0.0.1:0?proxy_protocol=1")
    dir = app("config.ru" => ECHO, "paceline.toml" => toml)
    serve(dir, "-b", bind)
  end

  def ask(server, header, request = REQUEST)
    server.exchange(header.b + request)
  rescue Errno::ECONNRESET, Errno::EPIPE
    ""
  end

  def version2(command, family, rest) = SIGNATURE + [command, family, rest.bytesize].pack("CCn") + rest

  V4 = [192, 0, 2, 9, 10, 0, 0, 1, 4660, 443].pack("C8nn").freeze
  V6 = ["\0" * 15 + "\x01" + "\0" * 15 + "\x02", 3, 4].pack("a32nn").freeze

  def test_both_versions
    server = start

    {
      "PROXY TCP4 192.0.2.9 10.0.0.1 4660 443\r\n" => "192.0.2.9|80|http",
      "PROXY TCP6 2001:db8::1 ::2 3 4\r\n" => "2001:db8::1|80|http",
      "PROXY UNKNOWN\r\n" => "127.0.0.1|80|http",
      version2(0x21, 0x11, V4) => "192.0.2.9|80|http",
      version2(0x21, 0x11, V4 + "\x04\0\x02xx".b) => "192.0.2.9|80|http",
      version2(0x21, 0x21, V6) => "::1|80|http",
      version2(0x20, 0x00, "") => "127.0.0.1|80|http"
    }.each { |header, told| assert ask(server, header).end_with?("\r\n\r\n#{told}"), header.inspect }
    server.wait_for(/^192\.0\.2\.9 "/)
  end

  def test_what_is_no_header_is_not_served
    server = start("log_requests = true")

    ["", "PROXY TCP4 1 2 3 4\r\n", "PROXY " + "x" * 200, version2(0x21, 0x11, "short"), version2(0x31, 0x11, V4), "\r\n"].each do |header|
      assert_equal "", ask(server, header), header.inspect
    end
    assert ask(server, "PROXY UNKNOWN\r\n").include?(" 200 ")
  end

  def test_it_may_come_in_pieces_but_not_for_ever
    server = start('proxy_protocol_timeout = "500ms"')

    server.connect do |socket|
      (SIGNATURE + "\x21\x11\0\x0c".b + V4 + REQUEST).each_char { |byte| socket.write(byte) }
      assert socket.read.end_with?("192.0.2.9|80|http")
    end
    server.connect do |socket|
      socket.write("PROXY TCP4 192.0.2.9")
      assert_equal "", socket.read
    end
  end

  def test_only_from_trusted_proxies_when_they_are_named
    trusting, refusing = start('trusted_proxies = "loopback"'), start('trusted_proxies = "192.0.2.0/24"')

    assert ask(trusting, "PROXY TCP4 198.51.100.1 10.0.0.1 1 2\r\n").end_with?("198.51.100.1|80|http")
    assert_equal "", ask(refusing, "PROXY TCP4 198.51.100.1 10.0.0.1 1 2\r\n")
  end

  def test_the_client_named_is_no_proxy
    server = start
    request = REQUEST.sub("Host:", "X-Forwarded-For: 6.6.6.6\r\nHost:")

    assert ask(server, "PROXY TCP4 198.51.100.1 10.0.0.1 1 2\r\n", request).end_with?("198.51.100.1|80|http")
  end

  def test_before_tls
    dir = app("config.ru" => ECHO)
    authority = Authority.new
    authority.write(dir, "shop", "shop.test")
    server = serve(dir, "-b", "ssl://127.0.0.1:0?cert=shop.pem&key=shop.key&proxy_protocol=1", port: false)
    port = Integer(server.wait_for(/Listening on https:\/\/\S+:(\d+)/)[1])

    tcp = TCPSocket.new("127.0.0.1", port)
    tcp.write("PROXY TCP4 192.0.2.9 10.0.0.1 4660 443\r\n")
    context = OpenSSL::SSL::SSLContext.new
    context.verify_mode = OpenSSL::SSL::VERIFY_NONE
    tls = OpenSSL::SSL::SSLSocket.new(tcp, context)
    tls.sync_close = true
    tls.connect
    tls.write(REQUEST)

    assert tls.read.end_with?("192.0.2.9|443|https")
    tls.close
  end
end
