# Valid messages, cut at every byte: whatever the segments that a client's bytes come in, the exchange is the same.
# A piece is sent only when the server has read the one before (the kernel tells), so that no two of them become one.
require_relative "../support/scenario"

class SplitTest < Minitest::Test
  include Scenario

  ECHO = { "config.ru" => <<~RUBY }.freeze
    run ->(env) {
      text = [env["REQUEST_METHOD"], env["REQUEST_URI"], env["HTTP_X"], env["HTTP_TRANSFER_ENCODING"], env["rack.input"]&.read].inspect
      [200, { "content-type" => "text/plain", "content-length" => text.bytesize.to_s }, [text]]
    }
  RUBY
  MESSAGES = [
    "\r\nGET /a?b=c HTTP/1.1\r\nHost: a.test\r\nX:  y z \r\n\r\n",
    "POST /length HTTP/1.1\r\nHost: a.test\r\nContent-Length: 12\r\n\r\nhello\r\n\r\nyou",
    "PUT /chunked HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n" \
      "5;x=\"y;z\"\r\nhello\r\n00c ; q\r\n\r\n0\r\n\r\nworld\r\n0\r\nX-Sum: 1\r\nY:\r\n\r\n",
    "POST /empty HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "HEAD http://a.test/absolute HTTP/1.1\r\nHost: a.test\r\n\r\n",
    "GET /last HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n"
  ].freeze
  PIPELINE = MESSAGES.join.freeze
  EXPECTED = [
    %w[GET /a?b=c] + ["y z", nil, ""],
    ["POST", "/length", nil, nil, "hello\r\n\r\nyou"],
    ["PUT", "/chunked", nil, nil, "hello\r\n0\r\n\r\nworld"],
    ["POST", "/empty", nil, nil, ""],
    ["GET", "/last", nil, nil, ""]
  ].freeze
  # Connections at a time.
  BATCH = 64

  def test_two_pieces_cut_at_every_byte
    server = serve(app(ECHO), "-t", "4", "--page-cache=false")
    whole = server.exchange(PIPELINE)
    assert_equal EXPECTED.map(&:inspect), whole.scan(/^\[.*?\](?=HTTP\/1\.1 |\z)/m)
    assert_equal MESSAGES.size, whole.scan(/^HTTP\/1\.1 200 |(?<=\])HTTP\/1\.1 200 /).size
    (1...PIPELINE.bytesize).each_slice(BATCH) do |cuts|
      sockets = cuts.map { server.connect }
      sockets.zip(cuts) { |socket, cut| socket.write(PIPELINE.byteslice(0, cut)) }
      taken(server, sockets)
      sockets.zip(cuts) { |socket, cut| socket.write(PIPELINE.byteslice(cut..)) }
      sockets.zip(cuts) { |socket, cut| assert_equal plain(whole), plain(rest(socket)), "cut at #{cut}" }
    ensure
      sockets&.each(&:close)
    end
  end

  def test_single_bytes
    [[], ["--buffer-requests=false"]].each do |options|
      server = serve(app(ECHO), "--page-cache=false", *options)
      whole = server.exchange(PIPELINE)
      server.connect do |socket|
        PIPELINE.each_byte do |byte|
          socket.write(byte.chr)
          taken(server, [socket])
        end
        assert_equal plain(whole), plain(rest(socket))
      end
    end
  end

  private

  # Until the server has read all that has come on these connections. (What the kernel still carries, on a machine that is busy
  # beyond measure, would make two pieces one: less of a test, but no failure.)
  def taken(server, sockets)
    ports = sockets.map { |socket| socket.local_address.ip_port }
    Timeout.timeout(PATIENCE) do
      sleep 0.0005 until unread(server.port).values_at(*ports).all?(0)
    end
  end

  # Bytes that wait to be read from each client, by its port. (The kernel lists this server's sockets alone: /proc/net/tcp has all that were
  # closed in the last minute, tens of thousands after other scenarios.)
  def unread(port)
    lines = IO.popen(["ss", "-Htan", "sport = :#{port}"], &:readlines).map(&:split)
    clients = lines.reject { |state,| state == "LISTEN" }
    clients.to_h { |_, received, _, _, client| [Integer(client[/\d+\z/]), Integer(received)] }
  end

  def rest(socket) = Timeout.timeout(PATIENCE) { socket.read }

  # Without what differs from one answer to the next.
  def plain(answer) = answer.gsub(/^(date|x-request-id|server-timing): .*\r\n/i, "")
end
