# Responses are compressed as the client accepts, and what the app flushes is not held back.
require "zlib"
require_relative "../support/scenario"

class CompressTest < Minitest::Test
  include Scenario

  TEXT = ("All work and no play makes Jack a dull boy. " * 100).freeze
  APP = <<~RUBY.freeze
    TEXT = "All work and no play makes Jack a dull boy. " * 100
    class Slow
      def each
        yield "one " * 10
        File.read("barrier")
        yield "two"
      end
    end
    run ->(env) {
      case env["PATH_INFO"]
      when "/text" then [200, { "content-type" => "text/plain", "etag" => '"v1"' }, [TEXT]]
      when "/slow" then [200, { "content-type" => "text/plain" }, Slow.new]
      else [200, { "content-type" => "image/png" }, [TEXT]]
      end
    }
  RUBY

  def test_an_apps_text_is_compressed_and_its_tag_weakened
    server = serve(app("config.ru" => APP))
    answer = ask(server, "/text", "Accept-Encoding" => "gzip;q=0.8")
    assert_equal ["gzip", "Accept-Encoding", 'W/"v1"'], answer.values_at("content-encoding", "vary", "etag")
    assert_equal TEXT, Zlib.gunzip(answer[:body])
    assert_equal answer["content-length"].to_i, answer[:body].bytesize

    again = ask(server, "/text", "Accept-Encoding" => "gzip", "If-None-Match" => 'W/"v1"')
    assert_equal [304, ""], [again[:status], again[:body]]

    assert_equal "zstd", ask(server, "/text", "Accept-Encoding" => "gzip, deflate, br, zstd")["content-encoding"]
    plain = ask(server, "/text", {})
    assert_equal [nil, "Accept-Encoding", '"v1"', TEXT], [*plain.values_at("content-encoding", "vary", "etag"), plain[:body]]
    assert_nil ask(server, "/image", "Accept-Encoding" => "gzip")["content-encoding"]
  end

  def test_what_the_app_flushed_comes_before_the_rest_is_there
    dir = app("config.ru" => APP)
    gate = barrier(dir)
    server = serve(dir)
    server.connect do |socket|
      socket.write("GET /slow HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAccept-Encoding: gzip\r\n\r\n")
      nil until socket.gets == "\r\n"
      inflate = Zlib::Inflate.new(Zlib::MAX_WBITS + 16)
      seen = +""
      # The app stands at the barrier: what is asked for here can only be what it has given so far.
      seen << inflate.inflate(chunk(socket)) until seen == "one " * 10
      gate.open
      while (data = chunk(socket))
        seen << inflate.inflate(data)
      end
      assert_equal "one " * 10 + "two", seen
    end
  end

  def test_static_files_and_ranges_of_them
    server = serve(app("config.ru" => APP, "public/app.css" => TEXT))
    whole = ask(server, "/app.css", "Accept-Encoding" => "br")
    assert_equal "br", whole["content-encoding"]
    part = ask(server, "/app.css", "Accept-Encoding" => "br", "Range" => "bytes=0-9")
    assert_equal [206, nil, TEXT[0, 10]], [part[:status], part["content-encoding"], part[:body]]
    again = ask(server, "/app.css", "Accept-Encoding" => "br", "If-None-Match" => whole["etag"])
    assert_equal [304, whole["etag"]], [again[:status], again["etag"]]
  end

  def test_compress_false_sends_what_the_app_gave
    server = serve(app("config.ru" => APP), "--compress=false")
    answer = ask(server, "/text", "Accept-Encoding" => "gzip")
    assert_equal [nil, nil, TEXT], [*answer.values_at("content-encoding", "vary"), answer[:body]]
  end

  private

  # Undecoded (Net::HTTP would decode): fields by name, :status and :body.
  def ask(server, path, fields)
    lines = { "Host" => "a", "Connection" => "close" }.merge(fields).map { |name, value| "#{name}: #{value}\r\n" }.join
    head, body = server.exchange("GET #{path} HTTP/1.1\r\n#{lines}\r\n").b.split("\r\n\r\n", 2)
    status, *rest = head.split("\r\n")
    answer = rest.to_h { |line| line.split(": ", 2).then { |name, value| [name.downcase, value] } }
    body = unchunk(body) if answer["transfer-encoding"] == "chunked"
    answer.merge(status: status[/ (\d{3}) /, 1].to_i, body: body)
  end

  def unchunk(body)
    whole = "".b
    until (size = body[/\A\h+/].to_i(16)).zero?
      _, body = body.split("\r\n", 2)
      whole << body.byteslice(0, size)
      body = body.byteslice(size + 2..)
    end
    whole
  end

  # nil: the last chunk.
  def chunk(socket)
    size = socket.gets.to_i(16)
    data = socket.read(size)
    socket.read(2)
    size.zero? ? nil : data
  end
end
