# `paceline bench` shows what a server does as it is: percentiles of known delays, a freeze that a closed loop hides, comparisons, files.
require "json"
require "open3"
require_relative "../support/origin"
require_relative "../support/scenario"

class BenchTest < Minitest::Test
  include Scenario

  # What ab 2.3 prints (Debian's apache2-utils 2.4.67), with every number as N.
  AB = <<~TEXT.freeze
    Benchmarking N.N.N.N (be patient).....done


    Server Software:        scripted/N
    Server Hostname:        N.N.N.N
    Server Port:            N

    Document Path:          /page
    Document Length:        N bytes

    Concurrency Level:      N
    Time taken for tests:   N.N seconds
    Complete requests:      N
    Failed requests:        N
    Total transferred:      N bytes
    HTML transferred:       N bytes
    Requests per second:    N.N [#/sec] (mean)
    Time per request:       N.N [ms] (mean)
    Time per request:       N.N [ms] (mean, across all concurrent requests)
    Transfer rate:          N.N [Kbytes/sec] received

    Connection Times (ms)
    min  mean[+/-sd] median   max
    Connect: N N N.N N N
    Processing: N N N.N N N
    Waiting: N N N.N N N
    Total: N N N.N N N

    Percentage of the requests served within a certain time (ms)
    N% N
    N% N
    N% N
    N% N
    N% N
    N% N
    N% N
    N% N
    N% N (longest request)
  TEXT

  def teardown
    @origin&.close
    super
  end

  # Standard output; standard error is in @said.
  def bench(*arguments, status: 0)
    out, @said, ended = Open3.capture3(BIN, "bench", *arguments.map(&:to_s))
    assert_equal status, ended.exitstatus, out + @said
    out
  end

  def result(*arguments, status: 0) = JSON.parse(bench(*arguments, "--json", status: status))

  # A server that keeps connections and answers each request as the block says. Yields the request's head, and its number from 0.
  def scripted(&block)
    numbers = Queue.new
    Thread.new { (0..).each { |number| numbers.size > 1000 ? sleep(0.01) : numbers << number } }
    @origin = Origin.new do |link|
      while (head = link.head)
        body = link.body(head)
        block.call(link, head, numbers.pop, body)
        break if head["connection"] == "close"
      end
    end
    "#{@origin.url}/page"
  end

  def answering(body = "ok", fields: [], &pause) = scripted { |link, head, number|
    pause&.call(number)
    fields_now = head["connection"] ? ["Connection: close"] : []
    link.answer(body, fields: ["Server: scripted/1", *fields, *fields_now])
  }

  def percentile(result, percent) = result["percentiles"].find { |point| point["percent"] >= percent - 1e-9 }["ms"]

  def shares(result, percent) = result["parts"].find { |shares| shares["percent"] >= percent }

  # Nine of ten are answered at once, the others after 100 ms, and one after 400.
  def test_percentiles_of_known_delays
    url = answering { |number| sleep(number == 33 ? 0.4 : 0.1) if number % 10 == 3 }
    found = result("-n", 200, "-c", 1, "-k", url)
    assert_equal [200, { "200" => 200 }, {}], found.values_at("answers", "statuses", "failures")
    assert_operator percentile(found, 50), :<, 100
    assert_includes 100..200, percentile(found, 95)
    assert_includes 100..400, percentile(found, 99)
    assert_includes 400..800, percentile(found, 100)
    # Where the time was spent: the server let the client wait.
    slow = shares(found, 99)
    assert_operator slow["parts"].fetch("wait"), :>, slow["ms"] * 0.9
  end

  # The server does nothing for 2 s. One client that waits has one slow response; visitors would have had a thousand.
  def test_a_freeze_of_two_seconds
    thaw = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 1
    freeze = lambda do |_|
      now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      sleep(thaw + 2 - now) if now.between?(thaw, thaw + 2)
    end
    url = answering(&freeze)
    found = result("--rate", "200/s", "-k", "-t", 5, url)
    # 400 of 1,000 requests came while it was frozen: those of the first 50 ms have waited for nearly 2 s.
    assert_includes 1800..2400, percentile(found, 99)
    assert_includes 1250..1900, percentile(found, 90)
    assert_operator percentile(found, 50), :<, 500

    thaw = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 1
    closed = result("-c", 1, "-k", "-t", 5, url)
    assert_operator percentile(closed, 99), :<, 1000
    assert_operator closed["corrected_p99"][0], :>, 1000
    assert_match(/requests that should have been sent were not, because clients waited; counted in, p99 is/, closed["remarks"].join)
  end

  def test_the_lines_of_ab
    masked = ->(text) { text.gsub(/\d+/, "N").gsub(/^ +(min|N%)/, '\1').gsub(/(?<=[:%N]) +(?=N)/, " ") }
    url = answering
    out = bench("--ab", "-n", 50, "-c", 5, url)
    assert_equal masked[AB], masked[out.lines.drop(2).join]
    assert_match(/^Complete requests:      50$/, out)
    kept = bench("--ab", "-k", "-n", 20, "-c", 2, url)
    assert_match(/^Failed requests:        0\nKeep-Alive requests:    20$/, kept)
  end

  def test_ab_s_tables_and_words
    seen = Queue.new
    url = scripted do |link, _, _|
      seen << link.io.remote_address.ip_address
      link.answer("ok")
    end
    out = bench("--ab", "-d", "-S", "-n", 5, "-B", "127.0.0.9", url)
    refute_match(/Percentage/, out)
    assert_match(/^ +min   avg   max$\n^Connect: +\d+ +\d+ +\d+$/, out)
    assert_equal "127.0.0.9", seen.pop
    bench("-v", 3, "-n", 2, url)
    assert_match(/^LOG: Response code = 200$/, @said)
    bench("-v", 4, "-n", 1, url)
    assert_match(%r{^LOG: header received:\nHTTP/1.1 200 }, @said)
    bench("-v", 2, "-n", 1, url)
    assert_equal "", @said
    bench("-v", 2, "-n", 1, "http://127.0.0.1:#{TCPServer.open("127.0.0.1", 0) { |closed| closed.addr[1] }}/", status: 2)
    assert_match(/^WARNING: connection refused$/, @said)
  end

  # As they stand in posts, with `paceline bench` in place of `ab`.
  def test_the_flags_of_ab
    seen = Queue.new
    url = scripted { |link, head, _, body| seen << [head, body] && link.answer("ok") }
    form = File.join(app("form" => "a=1&b=2"), "form")
    last = lambda do |line|
      bench("--ab", *line.split, url)
      seen.pop until seen.size == 1
      seen.pop
    end
    head, = last["-n 100 -c 10"]
    assert_equal ["GET /page HTTP/1.1", "close"], [head.line, head["connection"]]
    head, = last["-k -c 25 -n 1000 -C _session_id=5f1 -H Accept-Encoding:gzip"]
    assert_equal ["_session_id=5f1", "gzip", nil], head.fields.to_h.values_at("cookie", "accept-encoding", "connection")
    head, body = last["-n 10 -c 2 -p #{form} -T application/x-www-form-urlencoded"]
    assert_equal ["POST /page HTTP/1.1", "application/x-www-form-urlencoded", "a=1&b=2"], [head.line, head["content-type"], body]
    head, = last["-t 1 -c 2 -A user:secret -q -r"]
    assert_equal "Basic dXNlcjpzZWNyZXQ=", head["authorization"]
    head, body = last["-n4 -c2 -u #{form} -T text/plain -l -s 5"]
    assert_equal ["PUT /page HTTP/1.1", "a=1&b=2"], [head.line, body]
  end

  def test_files_of_a_run
    dir = app
    names = %w[run.json run.html run.csv run.hgrm percentiles.csv run.tsv].map { |name| File.join(dir, name) }
    flags = %w[--save --html --csv --hdr -e -g].zip(names).flatten
    url = answering
    bench("-n", 100, "-c", 2, "-k", *flags, url)
    saved, page, csv, hdr, percentiles, gnuplot = names.map { |name| File.read(name) }
    assert_equal 100, JSON.parse(saved)["answers"]
    assert page.start_with?("<!DOCTYPE html>")
    refute_match(/src=|href="http/i, page, "the page needs other files")
    assert_operator csv.lines.size, :>, 1
    assert_match(/Value +Percentile +TotalCount/, hdr)
    assert_match(/\APercentage served,Time in ms$/, percentiles)
    assert_equal 101, gnuplot.lines.size
    overlay = File.join(dir, "overlay.html")
    out = bench("-n", 100, "-c", 2, "-k", "--against", names[0], "--html", overlay, url)
    assert_includes out, File.basename(names[0], ".json")
    page = File.read(overlay)
    assert_includes page, '<polyline class="l1"'
    assert_includes page, '<i class="line l1"></i>run', "the legend of the second line"
    assert_match(/not a result of paceline bench --save/, bench("--against", names[1], url, status: 2) + @said)
  end

  # A kept connection that was lucky with the server's threads must not make its side the faster one: each slice has connections of its own.
  def test_two_urls
    links = Queue.new
    quick = scripted { |link, *| links << link && link.answer("ok") }
    first = @origin
    slow = answering { sleep 0.005 }
    out = bench("-t", 3, "-c", 2, "-k", quick, slow)
    assert_match(/B is \d+(\.\d+)? % slower/, out)
    slices = out[/(\d+) slices each/, 1].to_i
    used = Array.new(links.size) { links.pop.object_id }.uniq
    assert_equal 2 * (slices + 1), used.size, "two for the warm-up and for each slice"
  ensure
    first&.close
  end

  def test_what_is_wrong_is_said
    url = scripted { |link, _, number| link.answer("x" * (1 + number % 2), status: number < 3 ? "503 No" : "200 OK") }
    found = result("-n", 10, "-c", 1, "-k", url)
    assert_equal({ "200" => 7, "503" => 3 }, found["statuses"])
    assert_match(/503 \(3\).*another length than the first one \(1 bytes\)/, found["remarks"].join(" "))
    @origin.close
    assert_equal "", bench("-n", 10, url, status: 2)
    assert_match(/connection refused\. Is the server running\?$/, @said)
    assert_equal "", bench("-n", 10, "http://192.0.2.1/", status: 2)
    assert_match(/192\.0\.2\.1 is another machine: more than 50 requests a second need --yes; or say --rate 50/, @said)
  end

  def test_a_log_is_replayed
    seen = Queue.new
    url = scripted { |link, head, *| seen << head.line && link.answer }
    log = %w[/a /b?c=1 /a].each_with_index.map do |path, second|
      %(192.0.2.7 - - [24/Nov/2026:10:00:0#{second} +0000] "GET #{path} HTTP/1.1" 200 2 "-" "-"\n)
    end
    log << %(192.0.2.7 - - [24/Nov/2026:10:00:03 +0000] "POST /cart HTTP/1.1" 200 2 "-" "-"\n)
    file = File.join(app("access.log" => log.join), "access.log")
    found = result("--replay", file, "--speed", "10x", url)
    assert_equal 3, found["answers"]
    assert_equal ["GET /a HTTP/1.1", "GET /b?c=1 HTTP/1.1", "GET /a HTTP/1.1"], Array.new(3) { seen.pop }
    assert_match(/1 requests of the log were left out: only GET and HEAD/, found["remarks"].join)
  end

  INSIDE = <<~RUBY.freeze
    run lambda { |env|
      Paceline.span("sql") { sleep 0.02 }
      sleep 0.01
      [200, {}, [env.key?("HTTP_PACELINE_BENCH").inspect]]
    }
  RUBY

  # Inside beside outside: a Paceline server says what the client waited for.
  def test_the_times_within_the_server
    @server = serve(app("config.ru" => INSIDE), "--log-requests=false")
    url = "http://127.0.0.1:#{@server.port}/"
    found = result("-n", 20, "-c", 1, "-k", url)
    parts = shares(found, 50)["parts"]
    assert_operator parts.fetch("sql"), :>=, 19
    assert_operator parts.fetch("app"), :>=, 9
    refute parts.key?("wait")
    # The application itself sees nothing of it, and a stranger is told nothing.
    answer = @server.get("/", "Paceline-Bench" => "1")
    assert_equal "false", answer.body
    assert_match(/\Aqueue;dur=\d+\.\d{3}, app;dur=\d+\.\d{3}, gc;dur=\d+\.\d{3}, sql;dur=\d+\.\d{3}\z/, answer["server-timing"])
    assert_nil @server.get("/")["server-timing"]
    assert_nil @server.get("/", "Paceline-Bench" => "1", "X-Forwarded-For" => "192.0.2.1")["server-timing"]
    text = bench("-n", 20, "-c", 1, "-k", url)
    assert_match(/^  p50 +\d+(\.\d+)? ms  .*s+.*a+/, text)
    assert_match(/^  ms .*s sql.*a app/, text)
  end

  def test_http2
    @server = serve(app("config.ru" => "run ->(_) { [200, {}, ['ok']] }\n"), "--log-requests=false")
    found = result("-n", 200, "-c", 8, "--http2", "--streams", 4, "http://127.0.0.1:#{@server.port}/")
    assert_equal [200, { "200" => 200 }, true], found.values_at("answers", "statuses", "http2")
  end

  def test_a_unix_socket
    dir = app("config.ru" => "run ->(_) { [200, {}, ['ok']] }\n")
    @server = serve(dir, "-b", "unix://#{dir}/web.sock", "--log-requests=false", port: false)
    found = result("-n", 20, "-c", 2, "-k", "--unix-socket", "#{dir}/web.sock", "http://app.test/")
    assert_equal [20, { "200" => 20 }], found.values_at("answers", "statuses")
  end

  def test_the_largest_rate_is_found
    url = answering { sleep 0.002 }
    out = bench("--find", "50ms", "-c", 4, "-t", 1, "-k", url)
    assert_match(%r{requests/s}, out)
  end
end
