# What is said of each request afterwards: the access log in its formats, Server-Timing.
require_relative "../support/scenario"
require_relative "../support/wire"
require "json"

class AccessLogTest < Minitest::Test
  include Scenario

  APP = <<~'RUBY'
    require "uri"
    app = lambda { |env|
      case env["PATH_INFO"]
      when "/span"
        Paceline.span("sql") { 1 }
        Paceline.span("sql") { 2 }
      when "/waits" then File.write("entered", "x"); File.read("barrier")
      end
      [200, { "content-type" => "text/plain" }, %w[one two]]
    }
    linted = Rack::Lint.new(app)
    # Under Lint an Array arrives piece by piece: its head leaves before the app is done.
    run ->(env) { (env["PATH_INFO"] == "/whole" ? app : linted).call(env) }
  RUBY

  def start(*arguments) = @server = serve(@dir = app("config.ru" => APP, "public/file.txt" => "file", "log/.keep" => ""), "-t", "1", "--compress=false", *arguments)

  def test_a_developer_reads_short_lines
    start
    @server.get("/path?q=%22", "Referer" => "http://from.test/")
    @server.wait_for(%r{^127\.0\.0\.1 "GET /path\?q=%22 HTTP/1\.1" 200 6 \d+\.\dms( queue=\S+)?$})
    start("-e", "production")
    @server.get("/path")
    @server.wait_for(%r{^127\.0\.0\.1 - - \[.* "GET /path HTTP/1\.1" 200 6 "-" "Ruby" queue=.*$})
  end

  def test_combined_lines
    start("--access-log-format", "combined")
    @server.get("/path?q=%22", "Referer" => "http://from.test/", "User-Agent" => "agent \"x\"\\")
    time = %r{\[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\]}
    number = /\d+\.\dms/
    name = File.basename(@dir)
    @server.wait_for(%r{^127\.0\.0\.1 - - #{time} "GET /path\?q=%22 HTTP/1\.1" 200 6 "http://from\.test/" "agent \\"x\\"\\\\" queue=#{number} app=#{number} total=#{number} chunks=2 gc=#{number} site=#{name} cache=uri-miss:no-freshness$})
    @server.get("/file.txt")
    @server.wait_for(%r{"GET /file\.txt HTTP/1\.1" 200 4 "-" "Ruby" total=#{number} site=#{name}$})
    head = @server.request(Net::HTTP::Head.new("/head"))
    assert_equal "200", head.code
    @server.wait_for(%r{"HEAD /head HTTP/1\.1" 200 0 })
    assert_equal 3, @server.output.scan(/^127/).size
  end

  def test_json_lines
    start("--access-log-format", "json")
    @server.get("/span?a=b", "X-Request-Id" => "id-9")
    line = JSON.parse(@server.wait_for(/^\{.*\}$/)[0])
    expected = { "event" => "request", "remote" => "127.0.0.1", "method" => "GET", "uri" => "/span?a=b", "protocol" => "HTTP/1.1", "status" => 200, "bytes" => 6,
                 "complete" => true, "id" => "id-9", "site" => File.basename(@dir), "user_agent" => "Ruby", "chunks" => 2, "sql_count" => 2, "note" => nil }
    assert_equal expected, line.slice(*expected.keys)
    %w[queue_ms app_ms total_ms gc_ms sql_ms].each { |name| assert_kind_of Float, line[name], name }
    assert_operator line["total_ms"], :>=, line["app_ms"]
    assert_operator line["allocated"], :>, 0
  end

  def test_requests_are_left_out_by_path_and_status
    start("--log-skip", "/file.txt 2xx", "--log-skip", "/quiet/*")
    modified = @server.get("/file.txt")["last-modified"]
    @server.get("/quiet/page")
    assert_equal "304", @server.get("/file.txt", "If-Modified-Since" => modified).code
    @server.get("/last")
    @server.wait_for(%r{"GET /last })
    assert_equal ["/file.txt 304", "/last 200"], @server.output.scan(%r{"GET (\S+) HTTP/1.1" (\d+)}).map { |pair| pair.join(" ") }
  end

  def test_the_time_in_the_queue_is_told
    start("--access-log-format", "json")
    gate, entered = barrier(@dir), barrier(@dir, "entered")
    holding = Thread.new { @server.get("/waits") }
    entered.wait
    @server.connect do |socket|
      socket.write("GET /late HTTP/1.1\r\nHost: test\r\n\r\n")
      refute IO.select([socket], nil, nil, 0.5)
      gate.open
      Wire.response(socket)
    end
    holding.join
    line = JSON.parse(@server.wait_for(/^\{.*"uri":"\/late".*\}$/)[0])
    assert_operator line["queue_ms"], :>=, 30
    assert_operator line["total_ms"], :>=, line["queue_ms"]
    assert_operator line["app_ms"], :<, line["queue_ms"]
  end

  def test_a_file_for_the_lines_and_none_at_all
    start("--access-log", "log/access.log")
    @server.get("/there")
    eventually { File.exist?("#{@dir}/log/access.log") && File.read("#{@dir}/log/access.log").match?(/^\S+ - - \[.*"GET \/there HTTP.* total=/) }
    refute_includes @server.output, "GET /there"
    start("--log-requests=false")
    @server.get("/there")
    @server.stop
    refute_includes @server.output, "/there"
  end

  def test_server_timing
    start("--server-timing")
    assert_match(/\Aqueue;dur=\d+\.\d, app;dur=\d+\.\d/, @server.get("/whole")["server-timing"])
    start
    assert_nil @server.get("/whole")["server-timing"]
  end
end
