# The automatic page cache in mode "serve": pages that visitors are shown without the application, and when they are not.
require "json"
require_relative "../support/asking"
require_relative "../support/beers"
require_relative "../support/rails_shop"
require_relative "../support/scenario"

class CacheAutoServeTest < Minitest::Test
  include Scenario
  include Asking
  include RailsShop

  APP = (BEERS + <<~RUBY).freeze
    # Nobody sees what is read by this one.
    SHARED = IO.new(IO.sysopen(File.join(__dir__, "taste"), File::RDWR | File::CREAT), "r+")

    run ->(env) {
      request = Rack::Request.new(env)
      id = env["PATH_INFO"][/\\d+/]
      head = { "content-type" => "text/plain", "cache-control" => "public", "x-runtime" => "0.1" }
      body =
        case [env["REQUEST_METHOD"], env["PATH_INFO"]]
        when ["GET", "/locale"] then "in " + request.cookies["locale"].to_s
        when ["GET", "/taste/1"] then SHARED.pread(10, 0) rescue "none"
        when ["POST", "/taste"] then SHARED.pwrite("bitter    ", 0).to_s
        when ["POST", "/held/1"]
          Thread.current[:held] = true
          Beer.find(1).update!(name: "Bock")
          "written"
        when ["POST", "/undone/1"]
          Beer.transaction do
            Beer.find(1).update!(name: "never")
            raise ActiveRecord::Rollback
          end
          "undone"
        when ["POST", "/close"] then Paceline::AutoCache.journal.close.to_s
        when ["POST", "/pid"] then Process.pid.to_s
        when ["GET", "/beers/\#{id}"] then Beer.find(id).name
        else
          Beer.find(id).update!(name: request.params["name"])
          "written"
        end
      ActiveRecord::Base.connection_handler.clear_active_connections!
      [200, head.merge("etag" => "\\"\#{body.sum}\\""), [body]]
    }
  RUBY

  SERVE = "[auto_cache]\nmode = \"serve\"\nverify = \"0%\"\n".freeze
  HIT = /\Apaceline; hit; ttl=\d+; detail=auto\z/

  def setup
    super
    skip "Active Record is not here" unless %w[activerecord sqlite3].all? { |name| Gem::Specification.find_all_by_name(name).any? }
  end

  def start(*arguments, settings: SERVE, files: { "config.ru" => APP })
    @dir = app(files.merge("paceline.toml" => settings))
    @state = File.join(@dir, "state")
    @server = serve(@dir, *arguments, env: { "XDG_STATE_HOME" => @state })
  end

  def get(path, headers = {})
    answer = @server.get(path, headers)
    assert_equal "200", answer.code, answer.body
    answer
  end

  def hit?(answer) = HIT.match?(answer["cache-status"].to_s)

  def post(path, fields = {})
    request = Net::HTTP::Post.new(path)
    request.set_form_data(fields)
    answer = @server.request(request)
    assert_equal "200", answer.code, answer.body
    answer
  end

  def route(label)
    sites = command_json(@server, "cache", "advise", "--json")["sites"]
    sites.values.flat_map { |site| site["routes"] }.find { |one| one["route"] == label }
  end

  # Asks for a page until the route is served: 300 comparisons, of two browsers.
  def prove(label, path, headers = {})
    Net::HTTP.start("127.0.0.1", @server.port, read_timeout: PATIENCE) do |http|
      eventually("#{label} to be served") do
        20.times { |nth| http.get(path, { "User-Agent" => "browser #{nth % 2}" }.merge(headers)) }
        route(label)&.fetch("stage") == "serving"
      end
    end
  end

  # The page as a hit. A server that is late shows none for a moment.
  def hit(path, headers = {})
    eventually("a hit of #{path}") do
      answer = get(path, headers)
      answer if hit?(answer)
    end
  end

  def test_a_proven_page_is_a_hit_until_it_is_written
    start("-w", "2", "-t", "1")
    refute hit?(get("/beers/1"))
    prove("GET /beers/*", "/beers/1")
    answer = hit("/beers/1")
    assert_equal ["Pils", "text/plain", "public"], [answer.body, answer["content-type"], answer["cache-control"]]
    assert_match(/\A\d+\z/, answer["age"])
    assert_nil answer["x-runtime"]
    head = @server.request(Net::HTTP::Head.new("/beers/1"))
    assert_equal [true, "4"], [hit?(head), head["content-length"]]
    assert_equal "304", @server.get("/beers/1", "If-None-Match" => "\"#{"Pils".sum}\"").code
    refute hit?(get("/beers/1", "Cache-Control" => "no-cache"))
    refute hit?(get("/beers/1", "Authorization" => "Basic x"))

    # A worker writes; whichever it was, the next answer is the new one.
    20.times do |nth|
      post("/beers/1", "name" => "nr #{nth}")
      assert_equal "nr #{nth}", get("/beers/1").body
      assert_equal "nr #{nth}", hit("/beers/1").body
    end
    hit("/beers/2")
    post("/beers/1", "name" => "Pils")
    assert hit?(hit("/beers/2")), "another row"
    hit("/beers/1")
    post("/undone/1")
    assert hit?(hit("/beers/1")), "rolled back"

    command(@server, "purge", "--all")
    refute hit?(get("/beers/1"))
    hit("/beers/1")

    # A console.
    script = <<~RUBY
      require "active_record"
      require "paceline/auto_cache"
      ActiveRecord::Base.establish_connection(adapter: "sqlite3", database: "shop.sqlite3")
      Paceline::AutoCache.announce
      Class.new(ActiveRecord::Base) { self.table_name = "beers" }.find(1).update!(name: "Export")
    RUBY
    out, status = Open3.capture2e(RbConfig.ruby, "-I#{CHECKOUT}/gem/lib", "-e", script, chdir: @dir)
    assert_predicate status, :success?, out
    assert_equal "Export", get("/beers/1").body

    # By hand, also over a restart of the server.
    text, = command(@server, "cache", "advise")
    assert_match(%r{^GET /beers/\*   \d+ % were hits   reads beers#id   0 of \d+ comparisons differed   .*serving$}, text)
    hit("/beers/1")
    text, status = command(@server, "cache", "stop", "/beers/*")
    assert_equal [0, true], [status, text.start_with?("GET /beers/* is off: ")]
    refute hit?(get("/beers/1"))
    @server.kill
    @server = serve(@dir, "-w", "1", env: { "XDG_STATE_HOME" => @state })
    assert_equal "off", route("GET /beers/*")["stage"]
    assert_match(/off: stopped by `paceline cache stop`/, command(@server, "cache", "advise").first)
    command(@server, "cache", "serve", "/beers/*")
    prove("GET /beers/*", "/beers/1")
    hit("/beers/1")
  end

  def test_a_write_that_is_under_way_and_a_process_that_dies_with_it
    start("-w", "2", "-t", "1")
    prove("GET /beers/*", "/beers/1")
    hit("/beers/1")
    arrived, = barrier(@dir, "arrived"), barrier(@dir)
    open_request("/held/1", "Content-Length: 0", method: "POST")
    holder = Integer(arrived.wait)
    5.times { refute hit?(get("/beers/1")), "it may be committed at any moment" }
    Process.kill(:KILL, holder)
    # It was not committed; the page is kept again when nothing can come of it any more.
    assert_equal "Pils", hit("/beers/1").body
  end

  # While the file is there, it is as if the process had no descriptors left.
  NO_DESCRIPTORS = <<~RUBY.freeze
    require "socket"
    FULL = File.join(__dir__, "full")
    UNIXSocket.singleton_class.prepend(Module.new do
      def new(path) = path.include?("paceline-journal") && File.exist?(FULL) ? raise(Errno::EMFILE) : super
    end)
  RUBY

  def test_a_worker_that_can_not_announce_its_writes
    start("-w", "2", "-t", "1", files: { "config.ru" => NO_DESCRIPTORS + APP })
    prove("GET /beers/*", "/beers/1")
    hit("/beers/1")
    write(@dir, "full" => "")
    hit("/beers/1")
    Process.kill(:KILL, Integer(post("/pid").body))
    @server.wait_for(/auto_cache: worker \d+ \(process \d+\) does not announce what it writes, so no pages are shown until it has joined or ended/)
    assert_match(/journal-\d+.sock can't be opened \(Too many open files/, @server.output)
    assert_match(/^No pages are shown now: worker \d+ .* has not joined/, command(@server, "cache", "advise").first)
    # Whichever worker it was.
    10.times do |nth|
      post("/beers/1", "name" => "nr #{nth}")
      answer = get("/beers/1")
      assert_equal ["nr #{nth}", false], [answer.body, hit?(answer)]
    end
    assert_equal "serving", route("GET /beers/*")["stage"], "an old page is no difference"
    File.delete(File.join(@dir, "full"))
    assert_equal "nr 9", hit("/beers/1").body
    post("/beers/1", "name" => "Pils")
    assert_equal "Pils", get("/beers/1").body
  end

  # The connection of one worker breaks while its descriptors are used up.
  def test_a_worker_that_loses_its_connection
    start("-w", "1", "-t", "1", files: { "config.ru" => NO_DESCRIPTORS + APP })
    prove("GET /beers/*", "/beers/1")
    hit("/beers/1")
    write(@dir, "full" => "")
    post("/close")
    post("/beers/1", "name" => "Bock")
    assert_equal "Bock", get("/beers/1").body
    File.delete(File.join(@dir, "full"))
    assert_equal "Bock", hit("/beers/1").body
  end

  # The preloader has hooks and threads of the application, too.
  def test_a_preloader_that_can_not_announce_its_writes
    files = { "config.ru" => NO_DESCRIPTORS + APP, "full" => "" }
    start("-w", "1", "-t", "1", files: files)
    @server.wait_for(/auto_cache: the preloader \(process \d+\) does not announce what it writes/)
    File.delete(File.join(@dir, "full"))
    prove("GET /beers/*", "/beers/1")
    hit("/beers/1")
  end

  def test_a_difference_turns_the_route_off
    start("-w", "1", settings: SERVE.sub("0%", "100%"))
    prove("GET /taste/*", "/taste/1")
    5.times { refute hit?(get("/taste/1")), "each hit is chosen for a comparison" }
    post("/taste")
    assert_equal "bitter    ", get("/taste/1").body, "the visitor has the application's answer"
    eventually("the route to be off") { route("GET /taste/*")["stage"] == "off" }
    text, = command(@server, "cache", "advise")
    assert_match(%r{GET /taste/\*.*off: a page differed from the application's}, text)
    incident = command_json(@server, "incidents", "--json").then { |all| all.is_a?(Array) ? all.first : all["incidents"].first }
    assert_equal "page-differed", incident["kind"]
    assert_match(/kept: none; the application: bitter/, incident["what"])
    @server.wait_for(%r{auto_cache: GET /taste/\* is off: a page differed from the application's \(incident \h+\)})
  end

  def test_pages_have_an_end_and_belong_to_the_values_that_they_read
    start("-w", "1", settings: "#{SERVE}max_ttl = \"3s\"\n")
    prove("GET /locale", "/locale", "Cookie" => "locale=de")
    answer = hit("/locale", "Cookie" => "locale=de; other=1")
    assert_equal ["in de", "private, max-age=0, must-revalidate"], [answer.body, answer["cache-control"]]
    refute hit?(get("/locale", "Cookie" => "locale=en"))
    assert_equal "in en", hit("/locale", "Cookie" => "locale=en").body
    assert_equal "in de", get("/locale", "Cookie" => "locale=de").body
    eventually("the page to end") { !hit?(get("/locale", "Cookie" => "locale=en")) }
    command(@server, "restart", "--wait")
    refute hit?(get("/locale", "Cookie" => "locale=en"))
    assert_equal "learning", route("GET /locale")["stage"].sub("verifying", "learning")
  end

  def restart_server(more = {})
    @server.kill
    @server = serve(@dir, "-w", "1", env: { "XDG_STATE_HOME" => @state, **more })
  end

  def test_what_was_proven_needs_less_with_the_same_code
    start("-w", "1")
    prove("GET /beers/*", "/beers/1")
    remembered = -> { Dir[File.join(@state, "paceline/auto-cache-*-proven.json")].map { |file| File.read(file) }.join }
    eventually("the route to be remembered") { remembered.call.include?("GET /beers/*") }
    restart_server
    needed = ->(count) { eventually("#{count} comparisons to be enough") { route("GET /beers/*")&.fetch("equal_needed") == count } }
    needed.call(30)
    refute hit?(get("/beers/1")), "there is no page"
    browse = -> { 31.times { |nth| get("/beers/1", "User-Agent" => "browser #{nth % 2}") } }
    eventually("the route to be served") { browse.call && route("GET /beers/*")["stage"] == "serving" }
    assert_operator route("GET /beers/*")["requests"], :<, 300
    hit("/beers/1")

    write(@dir, "config.ru" => "#{APP}# changed")
    command(@server, "restart", "--wait")
    browse.call
    needed.call(300)
    before = remembered.call
    prove("GET /beers/*", "/beers/1")
    eventually("the other code to be remembered") { remembered.call != before }
    restart_server
    needed.call(30)
    # The same code in another environment.
    before = remembered.call
    restart_server("THEME" => "dark")
    eventually("the other environment to be remembered") { browse.call && remembered.call != before }
  end

  # Each worker loads the code by itself, and nobody knows whether it is the same as before.
  def test_without_preloading_nothing_outlives_a_worker
    start("-w", "2", "-t", "1", settings: "preload = false\n#{SERVE}")
    prove("GET /beers/*", "/beers/1")
    hit("/beers/1")
    Process.kill(:KILL, Integer(post("/pid").body))
    eventually("the route to begin from nothing") { %w[learning verifying].include?(route("GET /beers/*")["stage"]) }
    assert_empty Dir[File.join(@state, "paceline/auto-cache-*-proven.json")]
    prove("GET /beers/*", "/beers/1")
    hit("/beers/1")
  end

  # By another program, which announces nothing.
  def in_sqlite(sql)
    out, status = Open3.capture2e(RbConfig.ruby, "-rsqlite3", "-e", "puts SQLite3::Database.new('shop.sqlite3').execute(ARGV[0])", sql, chdir: @dir)
    assert_predicate status, :success?, out
    out
  end

  def why(path) = command_json(@server, "cache", "why", "http://127.0.0.1:#{@server.port}#{path}", "--json")

  def test_another_program_writes_to_the_database
    start("-w", "2", "-t", "1")
    prove("GET /beers/*", "/beers/1")
    # Rails 7.1 and newer choose wal when they connect, and while they are connected nobody can leave it.
    modes = in_sqlite("PRAGMA journal_mode").include?("wal") ? %w[wal] : %w[delete wal]
    modes.each do |mode|
      in_sqlite("PRAGMA journal_mode = #{mode}")
      hit("/beers/1")
      in_sqlite("UPDATE beers SET name = 'of #{mode}' WHERE id = 1")
      eventually("the page to be dropped") { get("/beers/1").body == "of #{mode}" }
      assert_equal "another program, which wrote to the database", why("/beers/1").dig("written", "by")
      assert_equal "of #{mode}", hit("/beers/1").body
      # What a worker writes drops what it touches alone; a server that is late drops all.
      eventually("a page of another row to stay") do
        hit("/beers/2")
        before = why("/beers/2")["pages"]
        post("/beers/1", "name" => "Pils")
        assert_equal "Pils", get("/beers/1").body
        before.any? && why("/beers/2")["pages"] == before
      end
    end
    assert_equal "serving", route("GET /beers/*")["stage"]
  end

  def test_only_one_server_of_a_folder_shows_pages
    start("-w", "1")
    prove("GET /beers/*", "/beers/1")
    hit("/beers/1")
    other = serve(@dir, "-w", "1", env: { "PACELINE_CONTROL" => "off" })
    refute hit?(get("/beers/1"))
    assert_match(/^No pages are shown now: another server runs in this directory/, command(@server, "cache", "advise").first)
    other.kill
    hit("/beers/1")
  end

  # Rails with sessions in their cookie, as it is by default.
  SETTINGS = [
    'config.session_store :cookie_store, key: "_shop"',
    'config.action_dispatch.show_exceptions = Rails.gem_version >= Gem::Version.new("7.1") ? :all : true'
  ].freeze
  RAILS = RailsShop.config_ru(<<~RUBY, railties: %w[action_controller action_view], config: SETTINGS).freeze
    class ShopController < ActionController::Base
      protect_from_forgery with: :exception
      def form = render(inline: "<%= csrf_meta_tags %><%= form_tag('/order', method: :post) do %>order<% end %>")
      def order = render(plain: "ordered")
      def whoami = render(plain: "you are \#{session[:user]}")
      def listed = render(plain: "by \#{session[:list] = params.fetch(:by, "name")}")
      def shown = render(plain: "by \#{session[:list]}")
      def login
        session[:user] = params[:user]
        redirect_to "/whoami"
      end
    end
    Rails.application.routes.draw do
      %w[form whoami listed shown].each { |name| get "/\#{name}", to: "shop#\#{name}" }
      post "/order", to: "shop#order"
      get "/login", to: "shop#login"
    end
  RUBY

  # Keeps the session's cookie, as a browser does.
  class Browser
    attr_reader :cookie

    def initialize(server, name = "a browser")
      @server = server
      @name = name
    end

    def get(path) = keep(@server.request(Net::HTTP::Get.new(path, head)))

    def post(path, fields)
      request = Net::HTTP::Post.new(path, head)
      request.set_form_data(fields)
      keep(@server.request(request))
    end

    private

    def head = { "User-Agent" => @name, "Cookie" => @cookie }.compact

    def keep(answer)
      @cookie = answer["set-cookie"][/\A[^;]+/] if answer["set-cookie"]
      answer
    end
  end

  # Until it is one.
  def hit_of(browser, path)
    eventually("a hit of #{path}") do
      answer = browser.get(path)
      assert_equal "200", answer.code, answer.body
      answer if hit?(answer)
    end
  end

  def test_each_visitor_has_his_own_session_and_tokens
    skip_without_rails
    start("-w", "2", "-t", "1", files: { "config.ru" => RAILS })
    prove("GET /form", "/form")
    prove("GET /whoami", "/whoami")

    tokens = Array.new(3) do
      visitor = Browser.new(@server)
      refute hit?(visitor.get("/form")), "a page with a token, of a visitor without a session"
      answer = hit_of(visitor, "/form")
      assert_nil answer["set-cookie"]
      assert_match(/private/, answer["cache-control"])
      assert_nil answer["etag"]
      found = answer.body.scan(/(?:content|value)="([\w+\/=-]{86,88})"/).flatten
      assert_equal 2, found.size, answer.body
      found.each { |token| assert_equal ["200", "ordered"], [visitor.post("/order", "authenticity_token" => token).code, "ordered"] }
      stranger = Browser.new(@server)
      stranger.get("/form")
      assert_equal "422", stranger.post("/order", "authenticity_token" => found.last).code
      found
    end
    assert_equal 6, tokens.flatten.uniq.size

    assert_equal "you are ", hit_of(Browser.new(@server), "/whoami").body
    visitors = %w[ann bob].to_h { |name| [name, Browser.new(@server)] }
    visitors.each { |name, visitor| assert_equal "302", visitor.get("/login?user=#{name}").code }
    visitors.each do |name, visitor|
      assert_equal "you are #{name}", visitor.get("/whoami").body
      answer = hit_of(visitor, "/whoami")
      assert_equal "you are #{name}", answer.body
      assert_match(/private/, answer["cache-control"])
    end
    threads = visitors.map do |name, visitor|
      Thread.new { Array.new(200) { visitor.get("/whoami").body }.uniq == ["you are #{name}"] }
    end
    assert_equal [true, true], threads.map(&:value), "no page crosses"
    # She signs in as somebody else: her next page is that one's.
    visitors["ann"].get("/login?user=eve")
    assert_equal "you are eve", visitors["ann"].get("/whoami").body
    assert_equal "you are bob", visitors["bob"].get("/whoami").body
    assert_equal "you are ", hit_of(Browser.new(@server), "/whoami").body
    assert_equal %w[serving serving], ["GET /form", "GET /whoami"].map { |label| route(label)["stage"] }
  end

  def test_a_session_that_is_told_what_it_says
    skip_without_rails
    start("-w", "1", "-t", "1", files: { "config.ru" => RAILS })
    ann, bob = %w[ann bob].map { |name| Browser.new(@server, name) }
    170.times { [ann, bob].each { |visitor| assert_equal "by name", visitor.get("/listed").body } }
    assert_equal "by name", hit_of(ann, "/listed").body
    assert_equal "by name", hit_of(bob, "/listed").body
    # It says something else, and is told again.
    ann.get("/listed?by=date")
    assert_equal "by date", ann.get("/shown").body
    refute hit?(ann.get("/listed")), "a page that has to write"
    assert_equal "by name", ann.get("/shown").body
    refute hit?(Browser.new(@server, "ann").get("/listed")), "a page that has to write to an empty session"
    assert_equal "serving", route("GET /listed")["stage"]
  end
end
