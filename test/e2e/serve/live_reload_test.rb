# Live reload: a change on disk reaches pages that are open, code that changes is restarted, and nothing of it is there in production.
require_relative "../support/http2_client"
require_relative "../support/scenario"
require "zlib"

class LiveReloadTest < Minitest::Test
  include Scenario

  TAG = '<script src="/.paceline/live-reload.js" async data-turbo-eval="false"></script>'.freeze
  TAB = "Sec-Fetch-Dest: document".freeze
  STREAM = "/.paceline/live-reload".freeze
  RU = <<~'RUBY'.freeze
    require_relative "page"
    run lambda { |env|
      html = { "content-type" => "text/html; charset=utf-8" }
      page = "<body>#{Page.text}</body>"
      case env["PATH_INFO"]
      when "/view" then [200, html, [File.read("views/a.erb")]]
      when "/sized" then [200, html.merge("content-length" => page.bytesize.to_s), [page]]
      when "/tagged"
        next [304, { "etag" => '"one"' }, []] if env["HTTP_IF_NONE_MATCH"] == '"one"'
        [200, html.merge("etag" => '"one"'), [page]]
      when "/policy" then [200, html.merge("content-security-policy" => "script-src 'nonce-r4nd0m'"), [page]]
      when "/coded" then [200, html.merge("content-encoding" => "gzip"), [[page].pack("m0")]]
      when "/download" then [200, html.merge("content-disposition" => "attachment; filename=a.html"), [page]]
      when "/data" then [200, { "content-type" => "application/json" }, ["{}"]]
      when "/kept" then [200, html.merge("cache-control" => "max-age=600"), [File.read("views/a.erb")]]
      when "/pieces" then [200, html, ->(stream) { stream.write("<body>one"); File.read("barrier"); stream.write(" two</bo"); stream.write("dy>"); stream.close }]
      when "/fails" then [500, html, [page]]
      when "/.paceline/live-reload" then [200, {}, ["of the app"]]
      else [200, html, [page]]
      end
    }
  RUBY
  FILES = {
    "config.ru" => RU, "page.rb" => "module Page\n  def self.text = 'one'\nend\n",
    "views/a.erb" => "<body>a</body>", "public/site.css" => "a {}", "public/plain.html" => "<p>plain</p></body>"
  }.freeze

  # Scenarios switch it off; these have it as a user does.
  def start(*arguments, files: {}, env: {})
    @dir ||= app(FILES.merge(files))
    @server = serve(@dir, *arguments, env: { "PACELINE_LIVE_RELOAD" => nil }.merge(env))
  end

  # An open stream. Its first event says nothing.
  def stream(known = "age=0", *fields)
    socket = open_request("#{STREAM}?#{known}", "Sec-Fetch-Site: same-origin", *fields)
    head = Timeout.timeout(PATIENCE) { Wire.head(socket) }
    assert_equal [200, "text/event-stream", "no-store"], [head.status, head["content-type"], head["cache-control"]]
    @id, words = event(socket)
    [socket, words]
  end

  # The next event: [id, what has changed]; nil at the end of the stream.
  def event(socket)
    Timeout.timeout(PATIENCE) do
      while (chunk = Wire.chunk(socket))
        return [chunk[/^id: (.*)$/, 1], chunk[/^data: (.*)$/, 1]] if chunk.include?("data: ")
      end
    end
  end

  def number = Integer(@id[/\d+\z/])

  # What the stream says of these files; it is one event.
  def told(socket, files)
    before = number
    write(@dir, files)
    @id, words = event(socket)
    assert_equal before + 1, number, "one event"
    words
  end

  # What it says of a folder with these files that comes in one moment, however busy the machine is.
  def moved(socket, files, to:)
    write(@dir, files.transform_keys { |name| "tmp/moved/#{name}" })
    before = number
    File.rename(File.join(@dir, "tmp/moved"), File.join(@dir, to))
    @id, words = event(socket)
    assert_equal before + 1, number, "one event"
    words
  end

  def test_each_kind_of_file
    start
    socket, first = stream
    assert_equal "nothing", first
    assert_equal "page", told(socket, "views/a.erb" => "<body>b</body>")
    assert_equal "<body>b#{TAG}</body>", ask("/view", TAB).body
    assert_equal "styles", told(socket, "public/site.css" => "b {}")
    assert_equal "scripts", told(socket, "public/app.js" => "b()")
    assert_equal "page", told(socket, "public/logo.png" => "png")
    assert_equal "styles page", moved(socket, 200.times.to_h { |n| ["#{n}.erb", "x"] }.merge("site.css" => "c {}"), to: "views/more"), "a checkout is one change"
    refute_match(/has changed/, @server.output, "no code has changed")
    refute_match(/\.paceline/, @server.output, "the log has no lines of it")
  end

  def test_editors_new_folders_and_what_is_not_watched
    start
    socket, = stream
    assert_equal "page", moved(socket, { "deep/b.erb" => "x" }, to: "views/new")
    assert_equal "page", told(socket, "views/new/deep/b.erb" => "y"), "a new folder is watched"
    before = number
    write(@dir, "views/.a.erb.swp" => "x", "views/a.erb~" => "x", "views/4913" => "x", "tmp/a.erb" => "x", "log/a.erb" => "x", "node_modules/x/a.js" => "x",
      ".git/a.rb" => "x", "db/development.sqlite3" => "x", "store.json" => "{}")
    File.rename(File.join(@dir, "views/a.erb~"), File.join(@dir, "views/a.erb"))
    @id, words = event(socket)
    assert_equal ["page", before + 1], [words, number], "the file that was put in its place"
    File.delete(File.join(@dir, "public/site.css"))
    @id, words = event(socket)
    assert_equal ["styles", before + 2], [words, number]
    write(@dir, "views/made/c.erb" => "x")
    @id, words = event(socket)
    assert_equal "page", words, "a folder that is made"
  end

  def test_code_is_restarted_before_pages_are_told
    start
    socket, = stream
    assert_equal "page", told(socket, "page.rb" => "module Page\n  def self.text = 'two'\nend\n")
    assert_equal "<body>two#{TAG}</body>", ask("/", TAB).body
    @server.wait_for(/page\.rb has changed$/)
  end

  # A deployment as Capistrano does it.
  def test_a_new_release_is_told_and_watched_in_place_of_the_old_one
    releases = { 1 => FILES, 2 => FILES.merge("page.rb" => "module Page\n  def self.text = 'two'\nend\n") }
    files = releases.flat_map { |number, all| all.map { |name, text| ["releases/#{number}/#{name}", text] } }.to_h
    @dir = app(files.merge("paceline.toml" => "[[site]]\nroot = \"current\"\n"))
    switch = lambda do |number|
      File.symlink("releases/#{number}", File.join(@dir, "new"))
      File.rename(File.join(@dir, "new"), File.join(@dir, "current"))
    end
    switch.(1)
    start
    socket, = stream
    assert_equal "page", told(socket, "releases/1/views/a.erb" => "<body>b</body>")
    switch.(2)
    @id, words = event(socket)
    assert_equal "page scripts", words, "the page is loaded again, when the new release is ready"
    assert_equal "<body>two#{TAG}</body>", ask("/", TAB).body
    assert_equal "page", told(socket, "releases/2/views/a.erb" => "<body>c</body>")
    assert_equal "<body>c#{TAG}</body>", ask("/view", TAB).body
    write(@dir, "releases/1/views/a.erb" => "<body>d</body>")
    assert_equal "styles", told(socket, "releases/2/public/site.css" => "b {}"), "the old one is not watched any more"
  end

  def test_an_error_is_shown_and_goes_away
    start
    socket, = stream
    assert_equal "page", told(socket, "page.rb" => "module Page\n  def self.text = 'two\nend\n")
    failed = ask("/", TAB, "Accept: text/html")
    assert_equal 503, failed.status
    assert_includes failed.body, "did not start"
    assert_includes failed.body, TAG.sub("></", " data-error></")
    assert_equal "page", told(socket, "page.rb" => "module Page\n  def self.text = 'three'\nend\n")
    assert_equal "<body>three#{TAG}</body>", ask("/", TAB).body
    generations = @server.output.scan(" is ready: ").size
    assert_equal 200, ask("/", TAB).status
    assert_equal generations, @server.output.scan(" is ready: ").size, "nothing is started once more"
  end

  def test_a_cause_that_no_file_shows_needs_only_a_reload
    start(files: { "page.rb" => "module Page\n  def self.text = 'one'\nend\n" })
    socket, = stream
    told(socket, "page.rb" => "raise 'no database' unless File.exist?('tmp/there')\nmodule Page\n  def self.text = 'two'\nend\n")
    assert_equal 503, ask("/", TAB).status
    write(@dir, "tmp/there" => "")
    eventually("the new code") { ask("/", TAB).body == "<body>two#{TAG}</body>" }
  end

  def test_a_start_that_failed_is_tried_again
    @dir = app(FILES.merge("page.rb" => "module Page\n"))
    @server = serve(@dir, env: { "PACELINE_LIVE_RELOAD" => nil }, ready: false)
    @server.wait_for(/ did not start$/)
    socket, = stream
    assert_equal "page", told(socket, "page.rb" => "module Page\n  def self.text = 'one'\nend\n")
    assert_equal "<body>one#{TAG}</body>", ask("/", TAB).body
  end

  def test_which_pages_get_the_script
    start("--log-requests=false")
    with = ->(body) { body.sub("</body>", "#{TAG}</body>") }
    page = "<body>one</body>"
    sized = ask("/sized", TAB)
    assert_equal [with[page], (page.size + TAG.size).to_s], [sized.body, sized["content-length"]]
    assert_equal with["<p>plain</p></body>"], ask("/plain.html", TAB).body, "a file"
    assert_equal with[page].sub("></", " data-error></"), ask("/fails", TAB).body
    assert_equal with[page].sub("></", " nonce=\"r4nd0m\"></"), ask("/policy", TAB).body
    assert_equal with[page], ask("/", "Accept: text/html,*/*").body, "a browser that does not say what for"
    assert_equal page.size.to_s, ask("/sized", TAB, method: "HEAD")["content-length"]

    [["/", []], ["/", ["Accept: */*"]], ["/", ["Sec-Fetch-Dest: empty", "Accept: text/html"]], ["/", ["Accept: text/html", "Turbo-Frame: cart"]],
      ["/", ["Accept: text/html", "X-Requested-With: XMLHttpRequest"]], ["/download", [TAB]], ["/coded", [TAB]], ["/data", [TAB]]].each do |path, fields|
      refute_includes ask(path, *fields).body, "live-reload", "#{path} #{fields}"
    end
    part = ask("/plain.html", TAB, "Range: bytes=0-3")
    assert_equal [206, "<p>p"], [part.status, part.body]
  end

  def test_conditions_and_compression
    start
    tagged = ask("/tagged", TAB)
    assert_equal ["<body>one#{TAG}</body>", 'W/"one"'], [tagged.body, tagged["etag"]]
    # What the browser has may be the page as the script fetched it.
    ['W/"one"', '"one"'].each do |tag|
      page = ask("/tagged", TAB, "If-None-Match: #{tag}")
      assert_equal [200, "<body>one#{TAG}</body>"], [page.status, page.body]
    end
    assert_equal 304, ask("/tagged", 'If-None-Match: "one"').status, "no tab"
    file = ask("/plain.html", TAB)
    again = ask("/plain.html", TAB, "If-None-Match: #{file["etag"]}", "If-Modified-Since: #{file["last-modified"]}")
    assert_equal [200, file.body], [again.status, again.body]
    coded = ask("/tagged", TAB, 'If-None-Match: W/"one"', "Accept-Encoding: gzip")
    assert_equal 200, coded.status
    write(@dir, "views/a.erb" => "<body>#{"long " * 1000}</body>")
    coded = ask("/view", TAB, "Accept-Encoding: gzip")
    assert_equal "gzip", coded["content-encoding"]
    assert_equal "<body>#{"long " * 1000}#{TAG}</body>", Zlib.gunzip(coded.body)
  end

  def test_a_page_in_pieces_is_not_held_back
    start
    gate = barrier(@dir)
    socket = open_request("/pieces", TAB)
    Wire.head(socket)
    assert_equal "<body>one", Timeout.timeout(PATIENCE) { Wire.chunk(socket) }
    gate.open
    rest = +""
    Timeout.timeout(PATIENCE) { while (chunk = Wire.chunk(socket)) do rest << chunk end }
    assert_equal " two#{TAG}</body>", rest
  end

  def test_what_the_page_cache_keeps_is_dropped
    start
    socket, = stream
    assert_includes ask("/kept").body, "<body>a</body>"
    assert_match(/hit/, ask("/kept", TAB)["cache-status"])
    told(socket, "views/a.erb" => "<body>b</body>")
    assert_includes ask("/kept").body, "<body>b</body>"
  end

  def test_in_production_there_is_nothing_of_it
    start("-e", "production", "--live-reload=true")
    assert_match(/live_reload is ignored in production/, @server.output)
    off
  end

  def test_it_can_be_turned_off
    start(files: { "paceline.toml" => "live_reload = false\n" })
    off
  end

  def off
    assert_equal "<body>one</body>", ask("/", TAB).body
    assert_equal "of the app", ask(STREAM).body
    write(@dir, "page.rb" => "module Page\n  def self.text = 'two'\nend\n")
    refute Dir["/proc/#{@server.pid}/task/*/comm"].any? { |file| File.read(file).start_with?("file-watch") }, "no file is watched"
    assert_equal "<body>one</body>", ask("/", TAB).body
  end

  def test_streams_are_for_this_site_and_end_with_the_server
    start
    assert_equal 403, ask(STREAM, "Sec-Fetch-Site: cross-site").status
    script = ask("/.paceline/live-reload.js")
    assert_equal [200, "text/javascript; charset=utf-8", true], [script.status, script["content-type"], script.body.bytesize < 4096]
    socket, = stream
    before = @id
    assert_equal "page", told(socket, "views/a.erb" => "x")
    _, words = stream("since=#{before}")
    assert_equal "page", words, "a tab that was in the background catches up"
    assert @server.stop.success?, "the stream does not hold it up"
    assert_nil event(socket)
    start
    _, words = stream("age=0", "Last-Event-ID: #{before}")
    assert_equal "scripts", words, "after a restart of the server pages are loaded again"
  end

  def test_http_2
    start
    client = Http2Client.new(@server.connect)
    number = client.request({ "sec-fetch-dest" => "document" }, path: "/")
    assert_equal [200, "<body>one#{TAG}</body>"], client.response(number)
    number = client.request({ "sec-fetch-site" => "same-origin" }, path: "#{STREAM}?age=0")
    assert_equal 200, client.head(number)
    said = +""
    more = lambda do |pattern|
      until said.match?(pattern)
        frame = client.read
        said << frame.payload if frame.stream == number && frame.type == Http2Client::DATA
      end
    end
    more.call(/data: nothing\n\n/)
    write(@dir, "views/a.erb" => "x")
    more.call(/data: page\n\n/)
  end
end
