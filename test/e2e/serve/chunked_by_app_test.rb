# Bodies that an app has put into the chunked coding by itself, as Rack 2's Rack::Chunked and Rails' `render stream: true` do: the
# client gets what was encoded, framed by the front, whether the body ends at once or takes its time.
require "zlib"
require_relative "../support/rack_routes"
require_relative "../support/scenario"
require_relative "../support/http2_client"
require_relative "../support/wire"

class ChunkedByAppTest < Minitest::Test
  include Scenario
  include RackRoutes

  LARGE = ("All work and no play makes Jack a dull boy.\n" * 2_000).freeze
  rack_setup <<~'RUBY'
    LARGE = "All work and no play makes Jack a dull boy.\n" * 2_000
    class Each
      def initialize(parts) = @parts = parts
      def each(&block) = @parts.each(&block)
    end
    class Waiting < Each
      def each
        super { |part| yield part; File.read("barrier") if part.include?("hello") }
      end
    end
    def chunk(bytes) = "#{bytes.bytesize.to_s(16)}\r\n#{bytes}\r\n"
    CODED = [chunk("hello"), chunk(", "), chunk("world"), "0\r\n", "\r\n"]
    PLAIN = { "content-type" => "text/plain" }
    # A response that says that its body is in the chunked coding.
    def coded(body, more = {}) = [200, PLAIN.merge("transfer-encoding" => "chunked").merge(more), body]
    KEPT = { "cache-control" => "max-age=60" }
    AT_ONCE = { "x-accel-buffering" => "no" }
  RUBY

  # Lint refuses bodies that are coded.
  rack("/one", bare: true) { coded([CODED.join]) }
  rack("/pieces", bare: true) { coded(CODED) }
  rack("/each", bare: true) { coded(Each.new(CODED)) }
  rack("/flushed", bare: true) { coded(Each.new(CODED), AT_ONCE) }
  rack("/large", bare: true) { coded(Each.new(LARGE.lines.map { |line| chunk(line) } << "0\r\n\r\n")) }
  rack("/huge", bare: true) { coded([chunk("x" * 20_000_000), "0\r\n\r\n"]) }
  rack(bare: true) { [200, PLAIN.dup, ["fine"]] }

  # The native part and its twin in Ruby.
  BOTH = { "native" => {}, "ruby" => { "PACELINE_NATIVE" => "0" } }.freeze

  rack("/one_each", bare: true) { coded(Each.new([CODED.join])) }
  rack("/bytes", bare: true) { coded(Each.new(CODED.join.chars)) }
  rack("/empty", bare: true) { coded(Each.new(["0\r\n", "\r\n"])) }
  rack("/none", bare: true) { coded(Each.new([])) }
  rack("/length", bare: true) { coded(Each.new(CODED), "content-length" => "12") }

  def test_a_body_that_ends_at_once_has_its_own_length
    BOTH.each do |name, env|
      start(env: env)
      %w[/one /one_each /pieces /each /bytes].each do |path|
        answer = ask(path)
        assert_equal [200, ["12"], nil, "hello, world"],
          [answer.status, answer.all("content-length"), answer["transfer-encoding"], answer.body], "#{path}, #{name}"
      end
      %w[/empty /none].each { |path| assert_equal [200, ["0"], ""], ask(path).then { |answer| [answer.status, answer.all("content-length"), answer.body] } }
      # A length that speaks of the data, beside the coding: the coding counts (RFC 9112 section 6.3).
      assert_equal "hello, world", ask("/length").body
      # Larger than what is gathered, and than what one frame holds.
      assert_equal LARGE, ask("/large").body
      assert_equal 20_000_000, ask("/huge").body.count("x")
    end
  end

  rack("/waits", bare: true) { coded(Waiting.new(CODED)) }

  def test_a_body_that_takes_its_time_is_chunked_by_the_front
    BOTH.each_value do |env|
      start(env: env)
      assert_equal ["chunked", nil, "hello, world"], ask("/flushed").then { |answer| [answer["transfer-encoding"], answer["content-length"], answer.body] }
      barrier = barrier(@dir)
      @server.connect do |socket|
        socket.write("GET /waits HTTP/1.1\r\nHost: test\r\n\r\n")
        assert_equal "chunked", Wire.head(socket)["transfer-encoding"]
        assert_equal "hello", Wire.chunk(socket)
        barrier.open
        rest = +""
        while (piece = Wire.chunk(socket)) && !piece.empty?
          rest << piece
        end
        assert_equal ", world", rest
      end
    end
  end

  def test_a_body_spooled_to_a_file_is_decoded_too
    config = "buffer_memory = \"0\"\n"
    start(files: { "paceline.toml" => config })
    %w[/one /pieces /each].each { |path| assert_equal "hello, world", ask(path).body, path }
    assert_equal LARGE, ask("/large").body
    assert_equal 20_000_000, ask("/huge").body.count("x")
    assert_equal LARGE, ask("/large", version: "1.0").body
  end

  rack("/not_modified", bare: true) { [304, PLAIN.merge("transfer-encoding" => "chunked"), []] }

  def test_head_and_304_get_no_transfer_encoding
    start
    %w[/one /pieces /each /cut /other].each do |path|
      answer = ask(path, method: "HEAD")
      assert_equal [200, nil, nil, ""], [answer.status, answer["content-length"], answer["transfer-encoding"], answer.body], path
    end
    assert_equal "12", ask("/length", method: "HEAD")["content-length"]
    assert_equal [304, nil], ask("/not_modified").then { |answer| [answer.status, answer["transfer-encoding"]] }
  end

  def test_http_1_0_and_http_2_clients_get_the_decoded_body
    start
    %w[/one /each /flushed].each do |path|
      answer = ask(path, version: "1.0")
      assert_equal [200, nil, "hello, world"], [answer.status, answer["transfer-encoding"], answer.body], path
    end
    @server.connect do |socket|
      http2 = Http2Client.new(socket)
      %w[/one /each /flushed /large].each do |path|
        head, body = http2.response(http2.request(path: path))
        assert_equal 200, head, path
        assert_equal path == "/large" ? LARGE : "hello, world", body, path
      end
    end
  end

  rack("/trailers", bare: true) { coded(Each.new([chunk("hello"), "0\r\n", "x-sum: 1\r\n", "\r\n"]), "trailer" => "x-sum") }

  def test_trailer_fields_end_with_the_coding
    start
    answer = ask("/trailers")
    assert_equal ["5", nil, "hello"], [answer["content-length"], answer["trailer"], answer.body]
  end

  rack("/kept", bare: true) { coded(CODED, KEPT) }
  rack("/kept/each", bare: true) { coded(Each.new(CODED), KEPT) }
  rack("/kept/large", bare: true) { coded(Each.new(LARGE.lines.map { |line| chunk(line) } << "0\r\n\r\n"), KEPT) }

  def test_the_decoded_body_is_compressed_and_cached
    start
    answer = ask("/large", "Accept-Encoding: gzip")
    assert_equal ["gzip", LARGE], [answer["content-encoding"], Zlib.gunzip(answer.body)]
    %w[/kept /kept/each /kept/large].each do |path|
      expected = path.end_with?("large") ? LARGE : "hello, world"
      assert_equal expected, ask(path).body, path
      again = ask(path)
      assert_match(/hit/, again["cache-status"], path)
      assert_equal [expected, expected.bytesize.to_s], [again.body, again["content-length"]], path
      assert_equal expected, ask(path, "Accept-Encoding: gzip").then { |zipped| zipped["content-encoding"] ? Zlib.gunzip(zipped.body) : zipped.body }
    end
  end

  rack("/plain", bare: true) { coded(Each.new(["A page ", "of text"])) }
  rack("/plain_flushed", bare: true) { coded(Each.new(["A page ", "of text"]), AT_ONCE) }

  # An app that copies the fields of another server's answer names the coding without applying it.
  def test_a_body_that_is_not_encoded_passes_unchanged
    start
    %w[/plain /plain_flushed].each { |path| assert_equal [200, "A page of text"], ask(path).then { |answer| [answer.status, answer.body] }, path }
  end

  rack("/cut", bare: true) { coded(Each.new(CODED.first(2))) }
  rack("/wrong", bare: true) { coded([chunk("hello"), "5\r\nwor"]) }
  rack("/cut_flushed", bare: true) { coded(Each.new(CODED.first(2)), AT_ONCE) }
  rack("/other", bare: true) { coded([CODED.join], "transfer-encoding" => "gzip, chunked") }

  def test_a_broken_coding_is_an_error_and_no_page
    start
    %w[/cut /wrong].each do |path|
      assert_equal 500, ask(path).status, path
      @server.wait_for(/"GET #{path} HTTP\/1.1" 500 .*the app's chunked coding is broken/)
    end
    assert_equal 500, ask("/other").status
    @server.wait_for(/"GET \/other HTTP\/1.1" 500 .*Transfer-Encoding: gzip, chunked/)
    assert_raises(EOFError) { ask("/cut_flushed") }
    assert_equal "fine", ask("/").body
  end

  RAILS = <<~'RUBY'
    require "action_controller/railtie"
    class Shop < Rails::Application
      config.eager_load = false
      config.logger = Logger.new(IO::NULL)
      config.secret_key_base = "x" * 64
      config.hosts.clear
      routes.append { get "/:action", controller: "pages" }
    end
    class PagesController < ActionController::Base
      prepend_view_path File.join(__dir__, "views")
      layout "page"
      def quick = render("quick", stream: true)
      def slow = render("slow", stream: true)
    end
    Shop.initialize!
    run Shop
  RUBY
  VIEWS = {
    "views/layouts/page.html.erb" => "<html><%= yield %></html>",
    "views/pages/quick.html.erb" => "<p>gr\u00fc\u00dfe</p>",
    "views/pages/slow.html.erb" => "<p>one</p><% File.read('barrier') %><p>two</p>"
  }.freeze

  def test_rails_render_stream_is_decoded
    # Rails 7.2 loses the layout's block on the way into its fiber, and says so with 500 under any server.
    skip "no render stream: true in this Rails" if Gem::Specification.find_by_name("actionpack").version >= Gem::Version.new("7")
    require "rack"
    @server = serve(@dir = app({ "config.ru" => RAILS, **VIEWS }), "-t", "1")
    10.times do
      answer = ask("/quick")
      assert_equal [200, "<html><p>gr\u00fc\u00dfe</p></html>".b], [answer.status, answer.body.b]
    end
    barrier = barrier(@dir)
    opened = Thread.new { barrier.open }
    assert_equal "<html><p>one</p><p>two</p></html>", ask("/slow").body
    opened.join
    assert_equal "<html>", ask("/quick", version: "1.0").body[0, 6]
  rescue Gem::MissingSpecError
    skip "no actionpack on this machine"
  end
end
