# The page cache from outside: purges and statistics by command, by HTTP on the control socket and from Ruby.
require "json"
require "open3"
require_relative "../support/scenario"

class PurgeTest < Minitest::Test
  include Scenario

  GEM = File.join(CHECKOUT, "gem/lib")

  # Each path counts how often it was asked. The query holds headers of the answer; `/ruby` evaluates its body.
  APP = <<~'RUBY'
    require "uri"
    COUNTS = Hash.new(0)
    run lambda { |env|
      path = env["PATH_INFO"]
      next [200, { "cache-control" => "no-store" }, [eval(env["rack.input"].read).inspect]] if path == "/ruby"
      number = COUNTS[path] += 1
      if (barrier = env["HTTP_X_BARRIER"])
        File.write("#{barrier}.came", "came")
        File.read(barrier)
      end
      headers = { "content-type" => "text/plain", "cache-control" => "max-age=600" }
      URI.decode_www_form(env["QUERY_STRING"].to_s).each { |name, value| headers[name] = value }
      headers["cache-control"] = "max-age=600" if env["HTTP_X_PUBLIC"]
      [200, headers, ["#{path} #{number} #{env["HTTP_ACCEPT_LANGUAGE"]} " + "x" * 2000]]
    }
  RUBY

  def serve_app(files = {}, *arguments, **options)
    serve(app({ "config.ru" => APP }.merge(files)), *arguments, **options)
  end

  def socket(server) = File.join(server.dir, "tmp/paceline.sock")

  # The number of the app's answer.
  def number(server, path, headers = {}) = Integer(server.get(path, { "Host" => "shop.test" }.merge(headers)).body.split[1])

  # Runs `paceline ARGUMENTS` in a directory: [what it printed, exit status].
  def command(dir, *arguments, env: {})
    out, status = Open3.capture2e({ "PACELINE_CONTROL" => nil, "RACK_ENV" => nil, "PORT" => nil }.merge(AS_ROOT).merge(env), BIN, *arguments, chdir: dir)
    [out, status.exitstatus]
  end

  # Bytes over the control socket; what comes back until it closes.
  def talk(server, bytes)
    Timeout.timeout(PATIENCE) do
      UNIXSocket.open(socket(server)) do |io|
        io.write(bytes)
        io.close_write
        io.read
      end
    end
  end

  # A request on the control socket: [status, JSON].
  def control(server, method, target, body = nil, headers = {})
    body = JSON.generate(body) if body.is_a?(Hash)
    fields = { "Host" => "paceline", "Connection" => "close", "Content-Length" => body.to_s.bytesize }.merge(headers)
    answer = talk(server, "#{method} #{target} HTTP/1.1\r\n#{fields.map { |pair| "#{pair.join(": ")}\r\n" }.join}\r\n#{body}")
    head, json = answer.split("\r\n\r\n", 2)
    [Integer(head[/\AHTTP\/1.1 (\d+)/, 1]), JSON.parse(json)]
  end

  def test_by_command
    server = serve_app
    paths = %w[/a /a/b /c?surrogate-key=x+y /d?cache-tag=y,z+z]
    ask = -> { paths.map { |path| number(server, path) } }
    assert_equal [1, 1, 1, 1], ask.call
    assert_equal [1, 1, 1, 1], ask.call

    url = "http://Shop.test"
    [[%W[#{url}/a], 1, [2, 1, 1, 1]],
     [%W[#{url}:80/nowhere], 0, [2, 1, 1, 1]],
     [%w[--tag x], 1, [2, 1, 2, 1]],
     [%w[--tag y], 2, [2, 1, 3, 2]],
     [["--tag", "z z"], 1, [2, 1, 3, 3]],
     [%W[--prefix #{url}/a], 2, [3, 2, 3, 3]],
     [%w[--all], 4, [4, 3, 4, 4]]].each do |arguments, count, numbers|
      words = count == 1 ? "1 response purged\n" : "#{count} responses purged\n"
      assert_equal [words, 0], command(server.dir, "purge", *arguments), arguments.inspect
      assert_equal numbers, ask.call, arguments.inspect
    end
  end

  def test_all_variants_and_compressed_twins_go
    server = serve_app
    path = "/v?vary=accept-language"
    asks = %w[en de].product(["identity", "gzip", "br"])
    ask = lambda do
      asks.each { |language, coding| server.get(path, "Host" => "shop.test", "Accept-Language" => language, "Accept-Encoding" => coding) }
      asks.map { |language, coding| server.get(path, "Host" => "shop.test", "Accept-Language" => language, "Accept-Encoding" => coding)["cache-status"] }
    end
    assert(ask.call.all? { |status| status.include?("; hit") })
    purged, status = command(server.dir, "purge", "http://shop.test#{path}")
    assert_equal ["2 responses purged\n", 0], [purged, status]
    first = asks.map { |language, coding| server.get(path, "Host" => "shop.test", "Accept-Language" => language, "Accept-Encoding" => coding)["cache-status"] }
    assert_equal [false, true, true] * 2, first.map { |one| one.include?("; hit") }, "one request to the app for each language"
    assert(first.values_at(0, 3).all? { |one| one.include?("miss") }, first.inspect)
  end

  def test_groups_are_tags_of_their_origin
    server = serve_app
    path = "/g?cache-groups=%22scripts%22"
    assert_equal [1, 1], Array.new(2) { number(server, path) }
    assert_equal ["0 responses purged\n", 0], command(server.dir, "purge", "--tag", "scripts")
    assert_equal ["1 response purged\n", 0], command(server.dir, "purge", "--tag", "http://shop.test scripts")
    assert_equal 2, number(server, path)
  end

  def test_without_the_parameters_that_do_not_matter
    server = serve_app
    path = "/s?no-vary-search=params%3D%28%22utm%22%29"
    assert_equal [1, 1], [number(server, path), number(server, "#{path}&utm=1")]
    assert_equal 1, control(server, "POST", "/cache/purge", { url: "http://shop.test#{path}&utm=2" })[1]["purged"]
    assert_equal 2, number(server, "#{path}&utm=3")
  end

  def test_a_soft_purge_serves_stale_while_it_is_made_anew
    server = serve_app
    path = "/soft?cache-control=max-age%3D600%2C+stale-while-revalidate%3D60"
    assert_equal [1, 1], Array.new(2) { number(server, path) }
    assert_equal ["1 response purged\n", 0], command(server.dir, "purge", "http://shop.test#{path}", "--soft")
    stale = server.get(path, "Host" => "shop.test")

    assert_equal "1", stale.body.split[1]
    assert_includes stale["cache-status"], "detail=stale-while-revalidate"
    eventually("the page to be made anew") { number(server, path) == 2 }

    plain = "/plain"
    assert_equal 1, number(server, plain)
    assert_equal [200, { "purged" => 1 }], control(server, "PURGE", "http://shop.test#{plain}", nil, "Soft" => "1")
    assert_equal 2, number(server, plain), "what allows no stale answer is asked for"
  end

  def test_what_was_asked_for_before_a_purge_is_not_kept
    server = serve_app({}, "-t", "2:4")
    gate, came = barrier(server.dir, "gate"), barrier(server.dir, "gate.came")
    before = Thread.new { server.get("/slow", "Host" => "shop.test", "X-Barrier" => gate.path) }
    came.wait

    # It is under way when the purge comes; who asks after the purge is not given what was made before it.
    assert_equal [200, { "purged" => 0 }], control(server, "POST", "/cache/purge", { url: "http://shop.test/slow" })
    after = server.get("/slow", "Host" => "shop.test")
    assert_equal "2", after.body.split[1]
    gate.open
    assert_equal "1", before.value.body.split[1]
    assert_equal 2, number(server, "/slow"), "the later answer is kept"
  end

  # The answer to HEAD freshens what is stored for GET, but not what was purged meanwhile.
  def test_what_was_purged_while_a_head_was_under_way_stays_so
    server = serve_app
    path = "/head?cache-control=max-age%3D0&etag=%22x%22"
    assert_equal 1, number(server, path)
    gate, came = barrier(server.dir, "gate"), barrier(server.dir, "gate.came")
    request = Net::HTTP::Head.new(path, "Host" => "shop.test", "X-Barrier" => gate.path, "X-Public" => "1")
    head = Thread.new { server.request(request) }
    came.wait
    control(server, "POST", "/cache/purge", { all: true })
    gate.open
    assert_equal "200", head.value.code
    assert_equal 3, number(server, path), "it is asked for again"
  end

  def test_by_http
    server = serve_app
    ask = -> { [number(server, "/a"), number(server, "/b")] }
    assert_equal [1, 1], ask.call
    # As `curl --unix-socket PATH -X PURGE http://shop.test/a` sends it.
    assert_equal [200, { "purged" => 1 }], control(server, "PURGE", "/a", nil, "Host" => "shop.test")
    assert_equal [2, 1], ask.call
    assert_equal [200, { "purged" => 1 }], control(server, "PURGE", "http://shop.test/b")
    assert_equal [2, 2], ask.call
    assert_equal [200, { "purged" => 2 }], control(server, "POST", "/cache/purge", { prefix: "http://shop.test/" })
    assert_equal [3, 3], ask.call
    assert_equal [200, { "purged" => 2 }], control(server, "POST", "/cache/purge", { all: true })
    assert_equal [4, 4], ask.call
  end

  def test_what_makes_no_sense_is_refused_in_words
    server = serve_app
    [["GET", "/nowhere", nil, 404, "there is nothing at /nowhere"],
     ["GET", "/cache/purge", nil, 405, "/cache/purge takes POST"],
     ["DELETE", "/cache/stats", nil, 405, "/cache/stats takes GET"],
     ["POST", "/cache/purge", "{", 400, "the body is not JSON"],
     ["POST", "/cache/purge", {}, 400, "nothing to purge"],
     ["POST", "/cache/purge", { url: "/a" }, 400, "must begin with http://"],
     ["POST", "/cache/purge", "x" * 100_000, 413, "more than 65536 bytes"],
     ["PURGE", "*", nil, 400, "PURGE takes a URL or a path"]].each do |method, target, body, status, words|
      answer = control(server, method, target, body)
      assert_equal status, answer[0], [method, target].inspect
      assert_includes answer[1]["error"], words
    end
    ["\x16\x03\x01\x02\x00\x01\x00\x01", "SSH-2.0-x\r\n\r\n", "\0" * 100_000, "GET /cache/stats HTTP/1.1\r\n", ""].each do |garbage|
      answer = begin
        talk(server, garbage)
      rescue Errno::EPIPE, Errno::ECONNRESET
        ""
      end
      refute_match(/ 200 /, answer, garbage[0, 20].inspect)
    end
    assert_equal 200, control(server, "GET", "/cache/stats")[0]
  end

  def test_connections_that_say_nothing_keep_nobody_from_it
    server = serve_app
    silent = Array.new(20) { UNIXSocket.new(socket(server)) }
    assert_equal [200, { "purged" => 0 }], control(server, "POST", "/cache/purge", { all: true })
  ensure
    silent&.each(&:close)
  end

  def test_statistics
    server = serve_app
    3.times { number(server, "/a") }
    number(server, "/b?cache-control=private")
    8.times { number(server, "/private?cache-control=private") }
    _, stats = control(server, "GET", "/cache/stats")
    site = stats["sites"].fetch(File.basename(server.dir))

    assert_equal [12, 2, 10], site.values_at("requests", "hits", "forwarded")
    assert_in_delta 2 / 12.0, site["hit_ratio"], 0.001
    assert_equal 1, site["stored"]
    assert_equal({ "url" => "http://shop.test/a", "hits" => 2, "responses" => 1 }, stats["top"][0].slice("url", "hits", "responses"))
    assert_operator stats["bytes"], :<=, stats["budget"]
    assert_includes site["missed"].map { |missed| missed.values_at("path", "header") }, ["/private", "Cache-Control: private"]

    json, status = command(server.dir, "cache", "stats", "--json")
    assert_equal [stats["sites"], 0], [JSON.parse(json)["sites"], status]
    table, = command(server.dir, "cache", "stats")
    ["16.7 % hits", "Misses caused by a header", "Cache-Control: private  /private", "http://shop.test/a", "of 64.0 MB"].each do |words|
      assert_includes table, words
    end
  end

  def test_each_answer_tells_its_own_reason
    server = serve_app
    said = Array.new(3) { server.get("/p?cache-control=private", "Host" => "shop.test")["cache-status"] }
    assert_equal ["paceline; fwd=uri-miss; detail=private"] * 3, said
    kept = server.get("/p?cache-control=private", "Host" => "shop.test", "X-Public" => "1")["cache-status"]
    assert_equal "paceline; fwd=uri-miss; stored", kept
  end

  def test_the_socket_is_its_owners_alone_and_goes_with_the_server
    server = serve_app
    assert_equal [0o600, Process.uid], File.stat(socket(server)).then { |stat| [stat.mode & 0o777, stat.uid] }
    assert_equal 0, server.stop.exitstatus
    refute_path_exists File.join(server.dir, "tmp")

    out, status = command(server.dir, "purge", "--all")
    assert_equal 1, status
    assert_equal "paceline: no server answers at tmp/paceline.sock: run the command in the directory that it serves, or name its socket with --control PATH\n", out
    out, status = command(server.dir, "purge")
    assert_equal 2, status
    assert_match(/\Apaceline: .*required/, out)
  end

  def test_a_dead_servers_socket_is_replaced_and_a_living_ones_is_not
    first = serve_app
    first.signal(:KILL)
    first.wait
    assert_path_exists socket(first)
    second = serve(first.dir)
    assert_equal 200, control(second, "GET", "/cache/stats")[0]

    third = serve(first.dir)
    third.wait_for(/control socket .*tmp\/paceline\.sock: another server has it; starting without a control socket/)
    assert_equal 1, number(third, "/a"), "it serves all the same"
    assert_equal [200, { "purged" => 0 }], control(second, "POST", "/cache/purge", { all: true })
    refused = serve(first.dir, "--control", "tmp/paceline.sock", ready: false, port: false)
    assert_equal 1, refused.wait.exitstatus
    assert_match(/control socket .*: another server has it/, refused.output)
    assert_equal 0, third.stop.exitstatus
    assert_equal 200, control(second, "GET", "/cache/stats")[0], "the other's socket is still there"
  end

  def test_another_place_and_none
    server = serve_app({ "paceline.toml" => "control = \"run.sock\"\n" })
    assert_equal ["0 responses purged\n", 0], command(server.dir, "purge", "--all")
    assert_equal ["0 responses purged\n", 0], command(Dir.tmpdir, "purge", "--all", "--control", File.join(server.dir, "run.sock"))
    assert_equal ["0 responses purged\n", 0], command(Dir.tmpdir, "purge", "--all", env: { "PACELINE_CONTROL" => File.join(server.dir, "run.sock") })
    assert_equal [server.dir, "run.sock"].join("/").inspect, ruby(server, "ENV['PACELINE_CONTROL']")
    refute_path_exists File.join(server.dir, "tmp/paceline.sock")

    off = serve_app({ "paceline.toml" => "control = \"off\"\n" })
    out, status = command(off.dir, "purge", "--all")
    assert_equal ["paceline: this server has no control socket, because control = \"off\"\n", 2], [out, status]
    assert_equal "nil", ruby(off, "Paceline.cache.purge(all: true)")
    off.wait_for(/this server has no control socket/)

    files = serve(app("index.html" => "plain"), ready: false)
    assert_equal "plain", files.get("/").body
    refute_path_exists File.join(files.dir, "tmp")
  end

  def test_a_folder_of_sites
    sites = app("shop/config.ru" => APP, "blog/config.ru" => APP)
    server = serve(sites, "--sites", ".", ready: false)
    %w[shop blog].each { |host| assert_equal "1", server.get("/a", "Host" => "#{host}.test").body.split[1] }
    assert_equal ["1 response purged\n", 0], command(sites, "purge", "http://shop.test/a")
    assert_equal "2", server.get("/a", "Host" => "shop.test").body.split[1]
    assert_equal "1", server.get("/a", "Host" => "blog.test").body.split[1]
    assert_equal %w[blog shop], JSON.parse(command(sites, "cache", "stats", "--json")[0])["sites"].keys
    assert_equal File.join(sites, ".paceline.sock").inspect, ruby(server, "ENV['PACELINE_CONTROL']")
  end

  def test_a_socket_that_is_lost_is_made_again
    server = serve_app
    File.delete(socket(server))
    eventually("the socket to be there again") { File.socket?(socket(server)) }
    assert_equal 200, control(server, "GET", "/cache/stats")[0]
  end

  # Evaluates in the app, within a request.
  def ruby(server, code)
    server.request(Net::HTTP::Post.new("/ruby", "Host" => "shop.test").tap { |post| post.body = code }).body
  end

  def test_from_the_app_within_a_request
    server = serve_app({}, "-t", "1", "-w", "1")
    assert_equal 1, number(server, "/a?surrogate-key=issue-42")
    assert_equal "1", ruby(server, "Paceline.cache.purge(tag: 'issue-42')")
    assert_equal 2, number(server, "/a?surrogate-key=issue-42")
    assert_equal "1", ruby(server, "Paceline.cache.purge(url: 'http://shop.test/a?surrogate-key=issue-42', soft: true)")
    assert_equal 3, number(server, "/a?surrogate-key=issue-42")
    assert_equal "3", ruby(server, "Paceline.cache.stats['sites'].values[0]['stored']")
    assert_equal '"\"a\" is no URL like https://shop.test/products/1: it must begin with http:// or https://"',
                 ruby(server, "begin; Paceline.cache.purge(url: 'a'); rescue ArgumentError; $!.message; end")
  end

  def test_from_the_app_while_it_is_loaded
    server = serve_app({ "config.ru" => "LOADED = Paceline.cache.purge(all: true)\n" + APP })
    assert_equal "0", ruby(server, "LOADED")
  end

  def test_from_a_console
    server = serve_app
    number(server, "/a")
    script = "p Paceline.cache.purge(prefix: 'http://shop.test/'), Paceline.cache.stats.keys.size > 5"
    env = { "PACELINE_CONTROL" => nil, "RUBYOPT" => nil }
    out, = Open3.capture2e(env, "ruby", "-I", GEM, "-rpaceline", "-e", script, chdir: server.dir)
    assert_equal "1\ntrue\n", out
    server.stop
    out, = Open3.capture2e(env, "ruby", "-I", GEM, "-rpaceline", "-e", "2.times { p Paceline.cache.purge(all: true) }", chdir: server.dir)
    assert_match(/\Apaceline: the page cache's server can't be reached at .*\nnil\nnil\n\z/, out)
  end

  def test_an_application_of_another_account_may_use_it
    skip "only root can run an application as somebody else" unless Process.uid.zero?
    dir = app("config.ru" => APP)
    FileUtils.chown_R("nobody", Etc.getpwnam("nobody").gid, dir)
    File.chmod(0o755, dir)
    gem = ENV["PACELINE_TEST_GEM"] || File.join(CHECKOUT, "gem")
    as_nobody = ->(*arguments) { serve(dir, *arguments, env: { "PACELINE_USER" => nil, "PACELINE_GEM_DIR" => gem }) }
    server = as_nobody.call
    stat = File.stat(socket(server))
    assert_equal ["nobody", 0o600], [Etc.getpwuid(stat.uid).name, stat.mode & 0o777]
    number(server, "/a")
    assert_equal "1", ruby(server, "Paceline.cache.purge(all: true)")
    assert_equal ["0 responses purged\n", 0], command(dir, "purge", "--all", env: { "PACELINE_USER" => nil }), "root may, too"
    assert_equal 0, server.stop.exitstatus
    refute_path_exists socket(server)

    # Where it may not make it itself, root makes it for it.
    run = app
    File.chmod(0o755, run)
    server = as_nobody.call("--control", "#{run}/paceline.sock")
    assert_equal "0", ruby(server, "Paceline.cache.purge(all: true)")
    assert_equal 0, server.stop.exitstatus
    refute_path_exists "#{run}/paceline.sock"
  end
end
