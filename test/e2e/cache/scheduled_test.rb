# Pages that change at a known time: prepared before, shown from the second on, whatever the clock does, and also if the application is down.
require "json"
require_relative "../support/asking"
require_relative "../support/scenario"
require_relative "../support/set_clock"

class CacheScheduledTest < Minitest::Test
  include Scenario
  include Asking

  # What the pages say follows from the clock of the process that renders them; X-Pid tells which that was.
  APP = <<~RUBY.freeze
    require "time"
    SALE = Time.at(Integer(ENV.fetch("SALE"))).utc
    SAID = File.read(File.join(__dir__, "views/said"))
    HEADERS = { "content-type" => "text/plain", "cache-control" => "public, max-age=86400, stale-while-revalidate=60" }.freeze
    run ->(env) {
      path = env["PATH_INFO"]
      now = Time.now
      if (barrier = env["HTTP_X_BARRIER"])
        File.write(File.join(__dir__, "arrived"), "here")
        File.read(barrier)
      end
      head = HEADERS.merge("x-pid" => Process.pid.to_s)
      case path
      when "/counted" then File.write(File.join(__dir__, "count"), "x", mode: "a")
      when "/announced" then Paceline.changes_at(SALE)
      when "/cart" then return [200, { "content-type" => "text/html", "cache-control" => "no-store" }, ["with \#{env["HTTP_COOKIE"]}"]]
      when "/shop"
        require File.join(ENV.fetch("PACELINE_GEM_DIR"), "lib/paceline/esi")
        head["content-type"] = "text/html"
        cart = Paceline.esi_include(env, "/cart", headers: head, app: ->(_) { raise "in place" })
        return [200, head, ["\#{now < SALE ? "before" : "after"} \#{cart}"]]
      when "/soon"
        Paceline.changes_at(now + 60)
        head["cache-control"] = "private"
      when "/timed"
        begins = File.join(__dir__, "begins")
        File.write(begins, (now + 5).to_i.to_s) unless File.exist?(begins)
        sale = Time.at(Integer(File.read(begins)))
        Paceline.changes_at(sale)
        return [200, head, [now < sale ? "before" : "after"]]
      when "/moved"
        sale = Time.at(SALE.to_i + Integer(File.read(File.join(__dir__, "later"))))
        Paceline.changes_at(sale)
        return [200, head, [Time.now < sale ? "before" : "after"]]
      when "/said" then head["Paceline-Changes-At"] = SALE.httpdate
      when "/private" then head["cache-control"] = "private, max-age=86400"
      when "/languages" then head["vary"] = "Accept-Language"
      when "/user" then return [200, head, ["\#{Time.now < SALE ? "before" : "after"} \#{env["HTTP_X_FORWARDED_USER"] || "nobody"}"]]
      when "/failing"
        raise "the database is away" if File.exist?(File.join(__dir__, "away"))
      when "/telling" then raise "no such customer: Lovelace"
      when "/coded" then return [200, head, ["\#{SAID} \#{now < SALE ? "before" : "after"}"]]
      when "/edited" then return [200, head, [File.read(File.join(__dir__, "text"))]]
      end
      language = path == "/languages" ? env["HTTP_ACCEPT_LANGUAGE"] : ""
      [200, head, [now < SALE ? "before\#{language}" : "after\#{language}"]]
    }
  RUBY

  SETTINGS = "[[scheduled]]\npath = [\"/\", \"/counted\", \"/private\", \"/languages\", \"/edited\", \"/coded\", \"/user\", \"/shop\", \"/failing\"]\nat = \"%s\"\n".freeze

  def setup
    super
    if (why = SetClock.missing)
      skip why
    end
    @sale = Time.at((Time.now.to_i / 3600 + 24) * 3600).utc
    settings = format(SETTINGS, @sale.strftime("%Y-%m-%d %H:%M UTC"))
    @dir = app("config.ru" => APP, "paceline.toml" => settings, "text" => "first", "later" => "0", "views/said" => "old")
    @clock = SetClock.new(@dir)
    set(-300)
  end

  # Seconds after the sale has begun.
  def set(seconds)
    @clock.set((@sale - Time.now).ceil + seconds)
  end

  def start(*arguments, **options)
    env = @clock.env.merge("SALE" => @sale.to_i.to_s, "XDG_STATE_HOME" => File.join(@dir, "state"))
    @server = serve(@dir, "-w", "1", "--access-log-format", "combined", *arguments, env: env, **options)
  end

  def get(path, headers = {}) = @server.get(path, headers)

  def text(path, headers = {}) = get(path, headers).body

  def hit?(answer) = answer["cache-status"].to_s.include?("; hit")

  # The pages of the sale, by path: [state, why].
  def pages
    plans = control_json(@server, "/schedule")["sites"].values.flatten
    plan = plans.find { |one| one["at"] == @sale.to_i * 1000 } or return {}
    plan["pages"].to_h { |page| [URI(page["url"]).path, [page["state"], page["why"]]] }
  end

  def wait_until_prepared(*paths)
    eventually("#{paths.join(", ")} to be prepared: #{pages}") { paths.all? { |path| pages[path]&.first == "ready" } }
  end

  def test_what_the_old_code_has_prepared_is_not_shown
    start
    assert_equal "old before", text("/coded")
    wait_until_prepared("/coded")
    write(@dir, "views/said" => "new")
    out, status = command(@server, "restart", "--wait")
    assert_equal 0, status, out
    assert_match(/; purged 1 page: the code has changed$/, out)
    set(0)
    assert_equal "new after", text("/coded")
  end

  def test_what_the_old_code_has_prepared_does_not_outlive_the_server_into_new_code
    start
    text("/coded")
    wait_until_prepared("/coded")
    eventually("it to be in the file") { Dir[File.join(@dir, "state/paceline/scheduled-*")].any? { |file| File.binread(file).match?(/code \h{64}\n/) } }
    @server.kill
    write(@dir, "views/said" => "new")
    start
    set(0)
    assert_equal "new after", text("/coded")
  end

  def test_pages_change_at_the_second
    start
    before = get("/")
    assert_equal "before", before.body
    assert_operator before["cache-control"][/max-age=(\d+)/, 1].to_i, :<=, 300
    wait_until_prepared("/")
    set(-2)
    last = get("/")
    assert_equal ["before", true], [last.body, hit?(last)]
    assert_operator last["cache-control"][/max-age=(\d+)/, 1].to_i - last["age"].to_i, :<=, 2
    set(0)
    first = get("/")
    assert_equal ["after", true], [first.body, hit?(first)]
    refute_equal before["x-pid"], first["x-pid"], "a copy has rendered it"
    assert_equal "public, max-age=86400, stale-while-revalidate=60", first["cache-control"]
    eventually("the change to be noticed") { pages["/"].first == "swapped" }
    assert_match(/pages changed/, command(@server, "schedule").first)
    set(3)
    eventually("a sample to be compared") { pages && @server.output.include?("the application says the same as the pages") }
  end

  def test_what_the_application_says_otherwise_is_reported
    start
    text("/edited")
    wait_until_prepared("/edited")
    set(0)
    assert_equal "first", text("/edited")
    write(@dir, "text" => "second")
    set(3)
    eventually("the difference to be seen") { pages["/edited"]&.first == "differs" }
    @server.wait_for(%r{1 of \d+ pages compared differ from what the application now says, such as http:\S+/edited: })
    assert_match(%r{differs +http:\S+/edited}, command(@server, "schedule", "--pages").first)
  end

  # By the machine's own clock, and without a request that would find the page due. (SetClock moves no timer of the kernel.)
  def test_the_timer_changes_pages
    @server = serve(@dir, "-w", "1", env: { "SALE" => @sale.to_i.to_s, "XDG_STATE_HOME" => File.join(@dir, "state") })
    assert_equal "before", text("/timed")
    @server.wait_for(/: (1 page has|0 pages have) changed/)
    assert_operator Time.now, :>=, Time.at(Integer(File.read(File.join(@dir, "begins"))))
    assert_equal "after", text("/timed")
  end

  def test_the_clock_is_set_back_and_forth
    start
    text("/")
    wait_until_prepared("/")
    set(5)
    assert_equal "after", text("/")
    set(-100)
    assert_equal "before", text("/"), "the sale has not begun"
    eventually("the change to be undone") { pages["/"].first == "ready" }
    set(5)
    again = get("/")
    assert_equal ["after", true], [again.body, hit?(again)]
    set(-7200)
    assert_equal "before", text("/")
    set(7200)
    assert_equal "after", text("/")
  end

  # Also one that the application has rendered, since nothing was prepared.
  def test_a_page_from_after_the_change_is_not_shown_before_it
    start
    text("/counted")
    eventually("it to be tried") { pages["/counted"]&.first == "dynamic" }
    set(5)
    assert_equal ["after", true], [text("/counted"), hit?(get("/counted"))]
    set(-100)
    assert_equal "before", text("/counted"), "the clock was set back"
    set(7200)
    assert_equal ["after", true], [text("/counted"), hit?(get("/counted"))]
    set(-7200)
    assert_equal "before", text("/counted"), "long after the plan was forgotten"
  end

  def test_one_request_for_all_where_nothing_is_prepared
    start
    text("/counted")
    eventually("it to be tried") { pages["/counted"]&.first == "dynamic" }
    assert_match(/it writes \(file: /, pages["/counted"][1])
    @server.wait_for(/stay dynamic \(it writes .*config\.ru:\d+\)/)
    assert_equal "x", File.read(File.join(@dir, "count")), "the copy has written nothing"
    set(0)
    answers = Array.new(30) { Thread.new { text("/counted") } }.map(&:value)
    assert_equal [%w[after], "xx"], [answers.uniq, File.read(File.join(@dir, "count"))]
  end

  def test_a_slow_answer_from_before_does_not_take_the_new_page_s_place
    start
    text("/")
    wait_until_prepared("/")
    arrived, gate = barrier(@dir, "arrived"), barrier(@dir)
    slow = Thread.new { text("/", "X-Barrier" => gate.path, "Cache-Control" => "no-cache") }
    arrived.wait
    set(0)
    assert_equal "after", text("/")
    gate.open
    assert_equal "before", slow.value, "it was asked for before the time"
    again = get("/")
    assert_equal ["after", true], [again.body, hit?(again)]
  end

  def test_what_the_cache_would_not_store_stays_dynamic
    start
    text("/private")
    text("/")
    wait_until_prepared("/")
    assert_equal ["dynamic", "the response can't be stored: private"], pages["/private"]
    assert_operator get("/private")["cache-control"][/max-age=(\d+)/, 1].to_i, :<=, 300
    set(0)
    assert_equal "after", text("/private")
  end

  def test_an_action_says_when_its_page_changes
    start
    %w[/announced /said].each do |path|
      answer = get(path)
      assert_nil answer["paceline-changes-at"]
      assert_operator answer["cache-control"][/max-age=(\d+)/, 1].to_i, :<=, 300
    end
    wait_until_prepared("/announced", "/said")
    set(0)
    %w[/announced /said].each do |path|
      answer = get(path)
      assert_equal ["after", true], [answer.body, hit?(answer)], path
    end
  end

  # A proxy in front has signed her in: the copy of the application would not know her.
  def test_somebody_who_has_signed_in_gets_no_page_of_nobody
    start
    alice = { "X-Forwarded-For" => "192.0.2.1", "X-Forwarded-User" => "alice" }
    assert_equal ["before nobody", "before alice"], [text("/user"), text("/user", alice)]
    wait_until_prepared("/user")
    set(0)
    assert_equal ["after nobody", "after alice"], [text("/user"), text("/user", alice)]
  end

  def test_a_page_with_a_fragment_of_each_visitor_is_prepared
    start
    assert_equal "before with cart=1", text("/shop", "Cookie" => "cart=1")
    wait_until_prepared("/shop")
    set(0)
    answer = get("/shop", "Cookie" => "cart=2")
    assert_equal ["after with cart=2", true], [answer.body, hit?(answer)]
  end

  def test_each_language_is_prepared
    start
    languages = %w[de en]
    languages.each { |language| assert_equal "before#{language}", text("/languages", "Accept-Language" => language) }
    wait_until_prepared("/languages")
    set(0)
    languages.each do |language|
      answer = get("/languages", "Accept-Language" => language)
      assert_equal ["after#{language}", true], [answer.body, hit?(answer)]
    end
  end

  def test_an_editor_s_late_change_is_seen
    start
    text("/edited")
    wait_until_prepared("/edited")
    File.write(File.join(@dir, "text"), "second")
    set(-60)
    control_json(@server, "/schedule")
    @server.wait_for(/1 of them new since the last look/)
    set(0)
    assert_equal "second", text("/edited")
  end

  def test_a_sale_that_is_moved_does_not_begin_at_its_old_time
    start
    text("/moved")
    wait_until_prepared("/moved")
    write(@dir, "later" => "3600")
    assert_equal "before", text("/moved", "Cache-Control" => "no-cache")
    set(0)
    assert_equal "before", text("/moved")
    set(3600)
    assert_equal "after", text("/moved")
  end

  def test_what_is_prepared_stays_while_the_application_fails
    start
    text("/failing")
    wait_until_prepared("/failing")
    write(@dir, "away" => "")
    set(-10)
    control_json(@server, "/schedule")
    @server.wait_for(/1 page can't be rendered again and stay as they were prepared: RuntimeError: the database is away/)
    set(0)
    answer = get("/failing")
    assert_equal ["after", true], [answer.body, hit?(answer)]
  end

  # Both are about to be prepared when somebody asks for their pages for the first time.
  def test_pages_of_two_times_that_come_late
    write(@dir, "paceline.toml" => ["/first*", "/second*"].zip([0, 60]).map { |path, later|
      "[[scheduled]]\npath = \"#{path}\"\nat = \"#{(@sale + later).strftime("%Y-%m-%d %H:%M UTC")}\"\n"
    }.join)
    start
    control_json(@server, "/schedule")
    text("/first")
    text("/second")
    eventually("both to be ready") do
      plans = control_json(@server, "/schedule")["sites"].values.flatten
      plans.flat_map { |plan| plan["pages"].map { |page| page.values_at("url", "state") } }.map { |url, state| [URI(url).path, state] }.sort == [%w[/first ready], %w[/second ready]]
    end
  end

  def test_a_page_that_says_another_time_with_each_request_is_prepared_for_a_few
    start
    30.times { text("/soon") }
    eventually("the last of them") { control_json(@server, "/schedule")["sites"].values.flatten.size <= 2 }
  end

  def test_a_purge_drops_what_is_prepared
    start
    text("/edited")
    wait_until_prepared("/edited")
    File.write(File.join(@dir, "text"), "second")
    command(@server, "purge", "--all")
    set(0)
    assert_equal "second", text("/edited")
  end

  def test_a_server_that_was_killed_has_them_again
    proxied = { "X-Forwarded-For" => "192.0.2.1", "X-Forwarded-Proto" => "https", "X-Forwarded-Port" => "443" }
    start
    text("/", proxied)
    text("/")
    wait_until_prepared("/")
    eventually("them to be kept") { Dir[File.join(@dir, "state/paceline/scheduled-*")].grep_v(/\.new-/).any? { |file| File.binread(file).scan("/\",\"by_proxies").size == 2 } }
    set(-1)
    port = @server.port
    @server.signal(:KILL)
    @server.wait
    write(@dir, "config.ru" => "raise 'the application is down'")
    set(1)
    env = @clock.env.merge("SALE" => @sale.to_i.to_s, "XDG_STATE_HOME" => File.join(@dir, "state"))
    @server = serve(@dir, "-b", "tcp://127.0.0.1:#{port}", env: env, ready: false)
    @server.wait_for(/the application is down/)
    answer = get("/")
    assert_equal %w[200 after], [answer.code, answer.body]
    answer = get("/", proxied)
    assert_equal %w[200 after], [answer.code, answer.body], "behind a proxy"
  end

  # A request that is sent at the time or later gets the new page, one that is answered before it the old one: by one clock, without a tolerance.
  def test_a_thousand_clients_across_the_change
    Process.setrlimit(:NOFILE, [4096, Process.getrlimit(:NOFILE)[1]].min, Process.getrlimit(:NOFILE)[1])
    start
    text("/")
    wait_until_prepared("/")
    set(-3)
    seen = Array.new(10) { Thread.new { ask_until(@sale + 1, Array.new(100)) } }.flat_map(&:value)
    early = seen.select { |_, answered, body| body == "after" && answered < @sale }
    late = seen.select { |asked, _, body| body == "before" && asked >= @sale }
    assert_equal [[], []], [early.first(3), late.first(3)], "of #{seen.size} answers"
    assert_equal %w[after before], seen.map(&:last).uniq.sort
    assert_operator seen.size, :>=, 1000
    assert_equal 1, @server.output.scan(" app=").size, "the application was asked once"
  end

  # Each client in turn, again and again: [asked, answered, body], by the server's clock.
  def ask_until(time, clients)
    seen = []
    until @clock.now >= time && seen.size >= clients.size
      clients.each_index do |number|
        socket = clients[number] ||= @server.connect
        asked = @clock.now
        socket.write("GET / HTTP/1.1\r\nHost: 127.0.0.1:#{@server.port}\r\n\r\n")
        body = Wire.response(socket).body
        seen << [asked, @clock.now, body]
      end
    end
    seen
  ensure
    clients.compact.each(&:close)
  end

  # The link is for anybody; what the application raises is for those who read its log.
  def test_a_link_to_a_preview_that_fails_tells_nothing_of_the_application
    start("-e", "production")
    link, status = command(@server, "preview", "/telling", "--at", @sale.strftime("%Y-%m-%d %H:%M:01 UTC"), "--link", env: @clock.env)
    assert_equal 0, status, link
    answer = get(link.strip)
    assert_equal "409", answer.code
    refute_match(/Lovelace|RuntimeError|config\.ru/, answer.body)
    @server.wait_for(/preview: .*no such customer: Lovelace/)
  end

  def test_a_preview_and_a_link_to_it
    start
    at = ["--at", @sale.strftime("%Y-%m-%d %H:%M:01 UTC")]
    assert_equal ["after", 0], command(@server, "preview", "/", *at, env: @clock.env)
    assert_equal "before", text("/"), "nothing of it is stored"
    link, status = command(@server, "preview", "/", *at, "--link", env: @clock.env)
    assert_equal 0, status, link
    shown = get(link.strip)
    assert_equal ["after", "no-store"], [shown.body, shown["cache-control"]]
    @server.wait_for(/paceline-preview=hidden/)
    refute_includes @server.output, link.strip[/paceline-preview=(.+)/, 1], "the link is the right to see the page"
    assert_equal "403", get(link.strip.sub(/.{3}\z/, "AAA")).code
    assert_equal "403", get(link.strip.sub("/?", "/counted?")).code
    set(86_400)
    assert_equal "410", get(link.strip).code
  end
end
