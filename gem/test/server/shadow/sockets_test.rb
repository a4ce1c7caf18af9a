# frozen_string_literal: true

require_relative "support/shadow_case"

# Connections without Net::HTTP are not opened: what goes over them can't be told apart as read or write.
class ShadowSocketsTest < ShadowCase
  OUTCOME = "def outcome\n  yield.inspect\nrescue StandardError => e\n  e.class.name\nend\n"

  def with_codes(codes, head = "")
    with_shadow("require 'socket'\n#{head}#{OUTCOME}#{routes(codes.transform_values { |code| "outcome { #{code} }" })}") { |shadow, dir, *| yield shadow, dir }
  end

  # A listener, and its port. Nobody connects to it.
  def unasked
    TCPServer.open("127.0.0.1", 0) do |listener|
      yield listener.addr[1]
      assert_equal :wait_readable, listener.accept_nonblock(exception: false)
    end
  end

  def assert_refused(shadow, whats, error: "Paceline::Server::Shadow::Outbound::Refused")
    whats.each do |path, what|
      result = shadow.get(path)
      assert_equal [error, "outbound", what], [result["text"], *result["write"]&.values_at("kind", "what")], path
      assert_match(/\Aconfig\.ru:\d+\z/, result["write"]["at"], path)
    end
  end

  def test_no_socket_is_connected
    unasked do |port|
      sockaddr = "Socket.sockaddr_in(#{port}, '127.0.0.1')"
      codes = { "/tcp" => "TCPSocket.new('127.0.0.1', #{port})", "/open" => "TCPSocket.open('127.0.0.1', #{port}) { |socket| socket.write('secret') }", "/socket" => "Socket.tcp('127.0.0.1', #{port})",
                "/address" => "Addrinfo.tcp('127.0.0.1', #{port}).connect", "/kernel" => "Socket.new(:INET, :STREAM).connect(#{sockaddr})", "/nonblock" => "Socket.new(:INET, :STREAM).connect_nonblock(#{sockaddr})",
                "/first data" => "Socket.new(:INET, :STREAM).send('x', 0x20000000, #{sockaddr})", "/message" => "Socket.new(:INET, :STREAM).sendmsg('x', 0x20000000, #{sockaddr})",
                "/message at once" => "Socket.new(:INET, :STREAM).sendmsg_nonblock('x', 0x20000000, #{sockaddr})", "/tls" => "OpenSSL::SSL::SSLSocket.open('127.0.0.1', #{port})" }
      with_codes(codes, "require 'openssl'\n") do |shadow|
        assert_refused(shadow, codes.transform_values { "a connection to 127.0.0.1:#{port} without Net::HTTP" })
      end
    end
  end

  # A name whose answer is too long for a datagram is asked for so, whether or not somebody listens there.
  def test_names_are_asked_for
    codes = { "/name" => "TCPSocket.new('127.0.0.1', 53)", "/address" => "Socket.new(:INET, :STREAM).connect(Socket.sockaddr_in(53, '127.0.0.1'))" }
    with_codes(codes) { |shadow| codes.each_key { |path| assert_nil shadow.get(path)["write"], path } }
  end

  def test_unix_sockets
    codes = { "/unix" => "UNIXSocket.new(File.join(__dir__, 'other.sock'))", "/socket" => "Socket.unix(File.join(__dir__, 'other.sock'))" }
    with_codes(codes) do |shadow, dir|
      UNIXServer.open(File.join(dir, "other.sock")) do |server|
        assert_refused(shadow, codes.transform_values { "a connection to other.sock without Net::HTTP" })
        assert_equal :wait_readable, server.accept_nonblock(exception: false)
      end
    end
  end

  # The front would forget pages for writes that are not made.
  def test_writes_are_not_announced_to_the_front
    gem = File.expand_path("../../../lib", __dir__)
    head = "$LOAD_PATH << #{gem.inspect}\nrequire 'paceline/auto_cache'\nrequire 'paceline/auto_cache/journal'\n"
    codes = { "/" => "Paceline::AutoCache::Journal.new(File.join(__dir__, 'tmp/paceline-journal-7.sock')).then { |journal| journal.intend([['DELETE FROM beers', [], nil]]); journal.open? }" }
    with_codes(codes, head) do |shadow, dir|
      FileUtils.mkdir_p(File.join(dir, "tmp"))
      UNIXServer.open(File.join(dir, "tmp/paceline-journal-7.sock")) do |front|
        assert_equal ["false", nil], shadow.get("/").values_at("text", "write")
        assert_equal :wait_readable, front.accept_nonblock(exception: false)
      end
    end
  end

  def test_other_libraries_for_http
    gems = %w[excon typhoeus].select { |name| Gem::Specification.find_all_by_name(name).any? }
    skip "neither excon nor typhoeus" if gems.empty?
    unasked do |port|
      url = "http://user:secret@127.0.0.1:#{port}/beers?secret"
      codes = { "excon" => { "/excon" => "Excon.get(#{url.inspect}, retry_limit: 1)" },
                "typhoeus" => { "/typhoeus" => "Typhoeus.get(#{url.inspect})", "/hydra" => "Typhoeus::Hydra.new.tap { |all| all.queue(Typhoeus::Request.new(#{url.inspect})) }.run", "/idle" => "Typhoeus::Hydra.new.run" } }.slice(*gems)
      with_codes(codes.values.reduce(:merge), gems.map { |name| "require '#{name}'\n" }.join) do |shadow|
        assert_refused(shadow, { "/excon" => "a connection to 127.0.0.1:#{port} without Net::HTTP" }, error: "Excon::Error::Socket") if gems.include?("excon")
        next unless gems.include?("typhoeus")

        assert_refused(shadow, { "/typhoeus" => "a call to 127.0.0.1:#{port} by libcurl", "/hydra" => "a call to 127.0.0.1:#{port} by libcurl" })
        assert_nil shadow.get("/idle")["write"]
      end
    end
  end

  # As Net::HTTP does. Its calls are recorded, and answered by a stand-in afterwards.
  def test_net_http_and_datagrams_go_on
    TCPServer.open("127.0.0.1", 0) do |listener|
      asked = Queue.new
      server = Thread.new do
        loop do
          socket = listener.accept
          asked << socket.gets
          nil until socket.gets == "\r\n"
          socket.write("HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nhops")
          socket.close
        end
      end
      UDPSocket.open do |metrics|
        metrics.bind("127.0.0.1", 0)
        codes = { "/http" => "Net::HTTP.get(URI('http://127.0.0.1:#{listener.addr[1]}/beers'))", "/datagram" => "UDPSocket.new.send('beers:1|c', 0, '127.0.0.1', #{metrics.addr[1]})",
                  "/connected" => "Socket.new(:INET, :DGRAM).tap { |socket| socket.connect(Socket.sockaddr_in(#{metrics.addr[1]}, '127.0.0.1')) }.send('ales:1|c', 0)" }
        with_codes(codes, "require 'net/http'\n") do |shadow|
          assert_equal ['"hops"', nil], shadow.get("/http", outbound: "record").values_at("text", "write")
          2.times { assert_equal ['"hops"', nil], shadow.get("/http").values_at("text", "write") }
          assert_equal ["9", nil, "beers:1|c"], [*shadow.get("/datagram").values_at("text", "write"), metrics.recv(20)]
          assert_equal ["8", nil, "ales:1|c"], [*shadow.get("/connected").values_at("text", "write"), metrics.recv(20)]
        end
      end
      assert_equal 1, asked.size
    ensure
      server&.kill&.join
    end
  end

  def test_so_are_those_to_unix_sockets
    Dir.mktmpdir do |dir|
      UNIXServer.open(path = File.join(dir, "other.sock")) do |listener|
        assert_closed_here("UNIXSocket.new(#{path.inspect})", listener)
      end
    end
  end

  # They are the preloader's, whose other end hears nothing of the shadow.
  def test_connections_from_before_the_fork_are_closed_here
    TCPServer.open("127.0.0.1", 0) do |listener|
      assert_closed_here("TCPSocket.new('127.0.0.1', #{listener.addr[1]})", listener)
    end
  end

  private

  # What the code opens before the fork, to the listener.
  def assert_closed_here(code, listener)
    with_codes({ "/" => "BEFORE.write('secret')" }, "BEFORE = #{code}\n") do |shadow|
      theirs = listener.accept
      assert_equal "IOError", shadow.get("/")["text"]
      assert_equal :wait_readable, theirs.read_nonblock(6, exception: false)
    end
  end
end
