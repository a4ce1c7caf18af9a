# Files of public/ as clients get them, before the app is asked; and folders that are nothing but files.
require_relative "../support/scenario"
require_relative "../support/wire"
require "zlib"

class StaticFilesTest < Minitest::Test
  include Scenario

  APP = <<~'RUBY'
    require "uri"
    use Rack::Lint
    run ->(env) { [200, { "content-type" => "text/plain" }, ["app: #{env["PATH_INFO"]}"]] }
  RUBY
  PAGE = "<p>a page</p>\n".freeze
  DIGITS = "0123456789".freeze
  SCRIPT = ("console.log(1);\n" * 200).freeze
  GZIPPED = Zlib.gzip(SCRIPT).freeze
  OLD = Time.utc(2024, 2, 3, 4, 5, 6)

  def files(folder)
    {
      "index.html" => PAGE, "about.html" => "about", "digits.txt" => DIGITS, "caf\u00e9.txt" => "coffee",
      "app.js" => SCRIPT, "app.js.gz" => GZIPPED, "app.js.br" => "brotli", "app.js.zst" => "zstandard",
      "assets/site-0123456789abcdef0123456789abcdef01234567.css" => "p{}", ".env" => "SECRET", ".git/config" => "SECRET",
      ".well-known/security.txt" => "mail us", "sub/index.html" => "below"
    }.transform_keys { |name| "#{folder}#{name}" }
  end

  def setup
    @dir = app({ "config.ru" => APP, "secret.txt" => "SECRET" }.merge(files("public/")))
    Dir.glob("#{@dir}/**/*", File::FNM_DOTMATCH).each { |path| File.utime(OLD, OLD, path) if File.file?(path) }
    @server = serve(@dir)
  end

  def test_a_file_has_exactly_these_fields
    answer = ask("/digits.txt")
    assert_equal "HTTP/1.1 200 OK", answer.line
    assert_equal %w[content-type etag last-modified accept-ranges content-length date].sort, answer.names.sort
    assert_equal ["text/plain; charset=utf-8", "Sat, 03 Feb 2024 04:05:06 GMT", "bytes", "10", DIGITS],
      [*%w[content-type last-modified accept-ranges content-length].map { |name| answer[name] }, answer.body]
    assert_match(/\A"[0-9a-f-]+"\z/, answer["etag"])
    head = ask("/digits.txt", method: "HEAD")
    assert_equal answer.fields.reject { |name, _| name == "date" }, head.fields.reject { |name, _| name == "date" }
    @server.wait_for(%r{"GET /digits.txt HTTP/1.1" 200 10 })
  end

  def test_files_are_found_by_the_names_that_rails_tries
    { "/" => PAGE, "/about" => "about", "/sub" => "below", "/sub/" => "below", "/caf%C3%A9.txt" => "coffee", "/.well-known/security.txt" => "mail us",
      "/missing.txt" => "app: /missing.txt", "/digits" => "app: /digits" }.each { |path, body| assert_equal body.b, ask(path).body.b, path }
    assert_equal "app: /digits.txt", ask("/digits.txt", "Content-Length: 0", method: "POST").body
  end

  def test_conditional_requests_get_304_or_412
    tag, date = ask("/digits.txt").then { |answer| [answer["etag"], answer["last-modified"]] }
    [["If-None-Match: #{tag}", 304], ["If-None-Match: \"x\", W/#{tag}", 304], ["If-None-Match: *", 304], ["If-None-Match: \"x\"", 200],
     ["If-Modified-Since: #{date}", 304], ["If-Modified-Since: Sat, 03 Feb 2024 04:05:05 GMT", 200],
     ["If-Match: \"x\"", 412], ["If-Unmodified-Since: Sat, 03 Feb 2024 04:05:05 GMT", 412]].each do |field, status|
      answer = ask("/digits.txt", field)
      assert_equal [status, status == 200 ? DIGITS : ""], [answer.status, answer.body.to_s], field
      assert_equal [tag, nil], [answer["etag"], answer["content-type"]], field if status == 304
    end
  end

  def test_ranges_get_206_or_416
    [["bytes=2-4", "234", "bytes 2-4/10"], ["bytes=7-", "789", "bytes 7-9/10"], ["bytes=-2", "89", "bytes 8-9/10"], ["bytes=5-99", "56789", "bytes 5-9/10"]].each do |range, body, told|
      answer = ask("/digits.txt", "Range: #{range}")
      assert_equal [206, body, told, body.size.to_s], [answer.status, answer.body, answer["content-range"], answer["content-length"]]
    end
    refused = ask("/digits.txt", "Range: bytes=10-")
    assert_equal [416, "bytes */10"], [refused.status, refused["content-range"]]
    assert_equal [200, DIGITS], ask("/digits.txt", "Range: bytes=2-4", "If-Range: \"x\"").then { |answer| [answer.status, answer.body] }
    assert_equal [200, DIGITS], ask("/digits.txt", "Range: nonsense").then { |answer| [answer.status, answer.body] }
  end

  def test_several_ranges_are_parts_of_one_message
    answer = ask("/digits.txt", "Range: bytes=0-1,8-9")
    boundary = answer["content-type"][%r{\Amultipart/byteranges; boundary=(\S+)\z}, 1]
    part = ->(range, text) { "--#{boundary}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Range: bytes #{range}/10\r\n\r\n#{text}\r\n" }
    assert_equal [206, part["0-1", "01"] + part["8-9", "89"] + "--#{boundary}--\r\n"], [answer.status, answer.body]
    assert_equal answer.body.bytesize.to_s, answer["content-length"]
  end

  def test_a_precompressed_twin_is_sent_if_accepted
    { "zstd, br, gzip" => %w[br brotli], "zstd, gzip" => %w[zstd zstandard], "br;q=1, gzip;q=0.5" => %w[br brotli], "gzip" => ["gzip", GZIPPED], "identity" => [nil, SCRIPT],
      "br;q=0" => [nil, SCRIPT] }.each do |accepted, (coding, body)|
      answer = ask("/app.js", "Accept-Encoding: #{accepted}")
      assert_equal [coding, "Accept-Encoding", body.b], [answer["content-encoding"], answer["vary"], answer.body.b], accepted
      assert_match(/javascript/, answer["content-type"])
    end
    assert_nil ask("/digits.txt", "Accept-Encoding: gzip")["vary"]
  end

  def test_a_name_with_a_fingerprint_is_immutable
    path = "/assets/site-0123456789abcdef0123456789abcdef01234567.css"
    assert_equal "public, max-age=31536000, immutable", ask(path)["cache-control"]
    assert_nil ask("/digits.txt")["cache-control"]
  end

  def test_nothing_outside_and_nothing_hidden
    %w[/../secret.txt /%2e%2e/secret.txt /..%2fsecret.txt /sub/../../secret.txt /sub%2f..%2f..%2fsecret.txt /..%5csecret.txt /.env /.git/config
       /%2egit/config //.env /sub/%2e%2e/%2e%2e/secret.txt /.well-known/../.env /digits.txt%00 /digits.txt%00.html /app.js/ /%c0%ae%c0%ae/secret.txt].each do |path|
      answer = ask(path)
      refute_includes answer.body, "SECRET", path
      assert_equal "app: #{path}", answer.body, path
    end
  end

  def test_a_file_replaced_while_it_is_sent_stays_what_it_was
    old = Random.new(3).bytes(1 << 20) * 32 # more than the sockets hold
    File.binwrite("#{@dir}/public/large.bin", old)
    @server.connect do |socket|
      socket.write("GET /large.bin HTTP/1.1\r\nHost: test\r\n\r\n")
      answer = Wire.head(socket)
      File.write("#{@dir}/public/new", "new")
      File.rename("#{@dir}/public/new", "#{@dir}/public/large.bin")
      assert old == Wire.exactly(socket, Integer(answer["content-length"])), "the old file's bytes"
      socket.write("GET /large.bin HTTP/1.1\r\nHost: test\r\n\r\n")
      assert_equal "new", Wire.response(socket).body
    end
  end

  def test_a_file_that_shrinks_breaks_the_connection
    @server.connect do |socket|
      File.write("#{@dir}/public/huge.bin", "x" * (64 << 20))
      socket.write("GET /huge.bin HTTP/1.1\r\nHost: test\r\n\r\n")
      answer = Wire.head(socket)
      File.truncate("#{@dir}/public/huge.bin", 100)
      assert_raises(EOFError, Errno::ECONNRESET) { Wire.exactly(socket, Integer(answer["content-length"])) }
    end
    @server.wait_for(%r{"GET /huge.bin HTTP/1.1" 200 .* cut=1})
  end

  def test_static_files_false_passes_all_to_the_app
    @server = serve(@dir, "--static-files=false")
    assert_equal "app: /digits.txt", ask("/digits.txt").body
  end
end

class PlainFolderTest < Minitest::Test
  include Scenario

  def test_a_folder_of_files_is_served_without_ruby
    server = serve(app("index.html" => "home", "notes.txt" => "notes", "404.html" => "<p>own</p>"), ready: false)
    assert_equal ["home", "notes"], [server.get("/").body, server.get("/notes.txt").body]
    assert_equal ["404", "405", "GET, HEAD"], [server.get("/missing").code, *server.request(Net::HTTP::Post.new("/notes.txt")).then { |answer| [answer.code, answer["allow"]] }]
    assert_empty server.descendants
    assert_equal 0, server.stop.exitstatus
  end
end
