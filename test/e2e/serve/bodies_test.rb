# Every kind of body that Rack knows, as it leaves the server.
require_relative "../support/rack_routes"
require_relative "../support/scenario"
require_relative "../support/wire"

class BodiesTest < Minitest::Test
  include Scenario
  include RackRoutes

  rack_setup <<~'RUBY'
    CLOSED = Hash.new(0)
    class Parts
      def initialize(name, parts, &between) = (@name, @parts, @between = name, parts, between)
      def each
        @parts.each_with_index { |part, i| @between&.call(i); yield part }
      end
      def close = CLOSED[@name] += 1
    end
    class Sent < Parts
      def to_path = File.expand_path("sent.bin")
    end
    TEXT = { "content-type" => "text/plain" }
    AT_ONCE = TEXT.merge("x-accel-buffering" => "no")
  RUBY

  rack("/closed") { |env| [200, TEXT.dup, [CLOSED[env["QUERY_STRING"]].to_s]] }

  SENT = Random.new(1).bytes(200_000).freeze

  def setup = start("--access-log-format", "combined", files: { "sent.bin" => SENT })

  def closed(name) = Integer(ask("/closed?#{name}").body)

  rack("/array", "/bare/array") { [200, TEXT.dup, ["one ", "two ", "three"]] }

  def test_an_array_has_its_length_and_is_one_piece
    answer = ask("/bare/array")
    assert_equal "HTTP/1.1 200 OK", answer.line
    assert_equal %w[content-type content-length cache-status date], answer.names
    assert_equal ["13", nil, "one two three"], [answer["content-length"], answer["transfer-encoding"], answer.body]
  end

  rack("/strings", "/bare/strings") { [200, TEXT.dup, Array.new(1300) { |i| "<li>#{i}</li>\n" }] }

  def test_an_array_of_many_strings_is_one_segment_of_the_connection
    whole = Array.new(1300) { |i| "<li>#{i}</li>\n" }.join
    @server.connect do |socket|
      socket.write("GET /bare/strings HTTP/1.1\r\nHost: test\r\n\r\n")
      first = socket.recv(1 << 20)
      assert first.end_with?("</li>\n"), "the first read ended in #{first[-20..]}"
      assert_equal whole, first[/\r\n\r\n(.*)\z/m, 1]
      assert_includes first, "content-length: #{whole.bytesize}\r\n"
    end
    @server.wait_for(%r{"GET /bare/strings HTTP/1.1" 200 #{whole.bytesize} .* chunks=1300 })
  end

  rack("/large", "/bare/large") { [200, TEXT.dup, Array.new(20) { "x" * 100_000 }] }

  def test_a_large_array_has_its_length_too
    answer = ask("/bare/large")
    assert_equal [["2000000"], nil, 2_000_000], [answer.all("content-length"), answer["transfer-encoding"], answer.body.bytesize]
  end

  rack("/enumerable") { [200, TEXT.dup, Parts.new("enumerable", ["one ", "two ", "", "three"])] }

  def test_an_enumerable_that_comes_at_once_has_its_length
    answer = ask("/enumerable")
    assert_equal [nil, "13"], [answer["transfer-encoding"], answer["content-length"]]
    assert_equal "one two three", answer.body
    assert_equal 1, closed("enumerable")
    @server.wait_for(%r{"GET /enumerable HTTP/1.1" 200 13 .* chunks=3 })
  end

  rack("/known") { [200, TEXT.merge("content-length" => "6"), Parts.new("known", ["abc", "def"])] }

  def test_an_enumerable_of_known_length_is_not_chunked
    answer = ask("/known")
    assert_equal ["6", nil, "abcdef"], [answer["content-length"], answer["transfer-encoding"], answer.body]
    assert_equal 1, closed("known")
    refute_includes @server.wait_for(%r{"GET /known HTTP/1.1" 200 6 .*})[0], "cut=1"
  end

  rack("/flushed") { [200, AT_ONCE.dup, Parts.new("flushed", ["one ", "two ", "", "three"])] }

  def test_x_accel_buffering_no_sends_chunk_by_chunk
    answer = ask("/flushed")
    assert_equal ["chunked", nil], [answer["transfer-encoding"], answer["content-length"]]
    assert_equal "one two three", answer.body
    assert_operator answer.chunks.size, :<=, 3
    assert_equal 1, closed("flushed")
    @server.wait_for(%r{"GET /flushed HTTP/1.1" 200 13 .* chunks=3 })
  end

  def test_http_1_0_gets_no_chunked_coding
    answer = ask("/flushed", version: "1.0")
    assert_equal ["HTTP/1.0 200 OK", nil, "one two three"], [answer.line, answer["transfer-encoding"], answer.body]
  end

  rack("/bare/short") { [200, TEXT.merge("content-length" => "10"), Parts.new("short", ["abc"])] }

  def test_a_body_shorter_than_its_length_breaks_the_connection
    error = assert_raises(EOFError) { ask("/bare/short") }
    assert_match(/3 of 10 bytes/, error.message)
    assert_equal 1, closed("short")
  end

  rack("/bare/long") { [200, TEXT.merge("content-length" => "4"), Parts.new("long", ["abc", "def"])] }

  def test_a_body_longer_than_its_length_does_not_reach_into_the_next_response
    bytes = @server.exchange("GET /bare/long HTTP/1.1\r\nHost: test\r\n\r\nGET /bare/array HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
    assert_equal "abcd", bytes[/\r\n\r\n(.*?)(?=HTTP|\z)/m, 1]
    assert_equal 1, closed("long")
  end

  rack("/bare/callable") { [200, TEXT.dup, ->(stream) { stream.write("one "); stream << "two"; stream.close }] }

  def test_a_callable_writes_its_body
    answer = ask("/bare/callable")
    assert_equal [nil, "one two"], [answer["transfer-encoding"], answer.body]
  end

  rack("/file", "/bare/file") { [200, { "content-type" => "application/octet-stream" }, Sent.new("file", ["sent"])] }

  def test_a_file_has_its_length_and_every_byte
    answer = ask("/bare/file")
    assert_equal ["200000", nil, "application/octet-stream"], [answer["content-length"], answer["transfer-encoding"], answer["content-type"]]
    assert_equal SENT, answer.body
    assert_equal 1, closed("file")
  end

  rack("/empty", "/bare/empty") { [200, TEXT.dup, []] }
  rack("/no_content") { [204, {}, Parts.new("no_content", [])] }
  rack("/not_modified") { [304, { "etag" => '"a"' }, Parts.new("not_modified", [])] }
  rack("/head") { |env| [200, TEXT.merge("content-length" => "11", "x-kept" => "yes"), Parts.new("head", env["REQUEST_METHOD"] == "HEAD" ? [] : ["hello world"])] }

  def test_rack_lint_finds_nothing_in_any_body
    %w[/array /strings /large /enumerable /known /file /empty /no_content /not_modified /head].each { |path| ask(path) }
    assert_equal "", ask("/head", method: "HEAD").body
    @server.stop
    assert_equal 11, @server.output.scan(/ HTTP\/1\.1" [23]\d\d /).size
    refute_match(/Lint/, @server.output)
  end

  def test_an_empty_body_has_length_0_and_204_and_304_have_none
    empty, none, unchanged = ask("/bare/empty"), ask("/no_content"), ask("/not_modified")
    assert_equal [200, "0"], [empty.status, empty["content-length"]]
    assert_equal [204, %w[cache-status date]], [none.status, none.names]
    assert_equal [304, %w[etag cache-status date]], [unchanged.status, unchanged.names]
    assert_equal [1, 1], [closed("no_content"), closed("not_modified")]
  end

  def test_head_keeps_the_fields_and_has_no_body
    @server.connect do |socket|
      socket.write("HEAD /head HTTP/1.1\r\nHost: test\r\n\r\nGET /head HTTP/1.1\r\nHost: test\r\n\r\n")
      head, got = Wire.response(socket, to: "HEAD"), Wire.response(socket)
      assert_equal %w[11 yes], [head["content-length"], head["x-kept"]]
      assert_equal "hello world", got.body
    end
    assert_equal 2, closed("head")
  end

  rack("/raises_midway") { [200, AT_ONCE.dup, Parts.new("raises_midway", %w[one two three]) { |i| raise "midway" if i == 2 }] }
  rack("/bare/callable_raises") { [200, TEXT.dup, ->(stream) { stream.write("one "); stream.flush; raise "midway" }] }

  def test_a_body_that_breaks_breaks_the_connection_and_the_thread_serves_on
    %w[/raises_midway /bare/callable_raises].each do |path|
      assert_raises(EOFError, path) { ask(path) }
    end
    assert_equal 1, closed("raises_midway")
    @server.wait_for(/RuntimeError: midway/)
    @server.wait_for(%r{"GET /raises_midway HTTP/1.1" 200 6 .* cut=1})
  end

  rack("/raises_at_once") { [200, TEXT.dup, Parts.new("raises_at_once", ["never"]) { raise "at once" }] }

  def test_a_body_that_breaks_before_anything_was_sent_is_an_error_page
    assert_equal 500, ask("/raises_at_once").status
    assert_equal 1, closed("raises_at_once")
    @server.wait_for(/RuntimeError: at once/)
  end

  rack("/raises_on_close") do
    body = Parts.new("raises_on_close", ["fine"])
    def body.close = (super; raise "on close")
    [200, TEXT.dup, body]
  end

  def test_a_body_that_raises_when_closed_was_sent_all_the_same
    assert_equal "fine", ask("/raises_on_close").body
    assert_equal 1, closed("raises_on_close")
    @server.wait_for(/RuntimeError: on close/)
  end

  rack("/bare/status") { |env| [Integer(env["QUERY_STRING"]), {}, []] }

  def test_a_status_that_is_none_is_an_error
    %w[99 100 101 103 600 1000].each do |status|
      assert_equal 500, ask("/bare/status?#{status}").status, status
    end
  end
end
