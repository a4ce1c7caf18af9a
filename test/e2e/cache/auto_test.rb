# The automatic page cache in mode "watch": what it says a cache would have answered, of an application with a database.
require "json"
require_relative "../support/asking"
require_relative "../support/beers"
require_relative "../support/scenario"

class CacheAutoTest < Minitest::Test
  include Scenario
  include Asking

  APP = (BEERS + <<~RUBY).freeze
    COUNTS = Hash.new(0)
    STREAM = Class.new do
      def each
        yield "beer "
        yield Beer.find(1).name
      end
    end
    run ->(env) {
      request = Rack::Request.new(env)
      id = env["PATH_INFO"][/\\d+/]
      head = { "content-type" => "text/plain" }
      body =
        case [env["REQUEST_METHOD"], env["PATH_INFO"]]
        when ["GET", "/beers"] then Beer.order(:id).pluck(:name).join(",")
        when ["GET", "/counted"] then Beer.where(name: "Pils").count.to_s
        when ["GET", "/clock"] then Time.now.to_i.digits.size.to_s
        when ["GET", "/locale"] then "in " + request.cookies["locale"].to_s
        when ["GET", "/theme"] then head["set-cookie"] = "theme=dark"
        when ["GET", "/unseen"] then "seen \#{COUNTS[:unseen] += 1} times"
        when ["GET", "/environment"] then ENV["PACELINE_AUTO_CACHE"].to_s
        when ["GET", "/slow/1"] then Beer.find(1).name.tap { PASS.call("here") }
        when ["POST", "/held/1"]
          Thread.current[:held] = true
          Beer.find(1).update!(name: "Bock")
          "written"
        when ["POST", "/undone/1"]
          Beer.transaction do
            Beer.find(1).update!(name: request.params["name"])
            raise ActiveRecord::Rollback
          end
          "undone"
        when ["GET", "/stream/1"] then STREAM.new
        when ["GET", "/beers/\#{id}"] then Beer.find(id).name
        else
          Beer.find(id).update!(name: request.params["name"])
          "written"
        end
      ActiveRecord::Base.connection_handler.clear_active_connections! unless body.is_a?(STREAM)
      [200, head, body.is_a?(String) ? [body] : body]
    }
  RUBY

  def start(*arguments, settings: "[auto_cache]\nmode = \"watch\"\n")
    @dir = app("config.ru" => APP, "paceline.toml" => settings)
    @server = serve(@dir, *arguments)
  end

  def setup
    super
    skip "Active Record is not here" unless %w[activerecord sqlite3].all? { |name| Gem::Specification.find_all_by_name(name).any? }
  end

  def get(path, headers = {})
    answer = @server.get(path, headers)
    assert_equal "200", answer.code, answer.body
    answer.body
  end

  def rename(path, name)
    post = Net::HTTP::Post.new(path)
    post.set_form_data("name" => name)
    assert_equal "200", @server.request(post).code
  end

  # The same, and the server knows that it is done.
  def rename_and_wait(path, name)
    before = writes
    rename(path, name)
    eventually("the write to be done") { writes > before }
  end

  def writes = command_json(@server, "cache", "advise", "--json")["sites"].values.sum { |site| site["writes"] }

  # What is known of a route, once it has counted so many requests.
  def route(label, requests)
    found = nil
    eventually("#{label} to have #{requests} requests: #{found}") do
      sites = command_json(@server, "cache", "advise", "--json")["sites"]
      found = sites.values.flat_map { |site| site["routes"] }.find { |one| one["route"] == label }
      found && found["requests"] == requests
    end
    found
  end

  # Requests that could have been hits, and those that differed.
  def counts(label, requests) = route(label, requests).values_at("hits", "differed")

  def test_pages_are_dropped_by_the_writes_that_touch_them
    start("-w", "1")
    3.times { assert_equal "Pils", get("/beers/1") }
    assert_equal [2, 0], counts("GET /beers/*", 3)
    rename_and_wait("/beers/2", "Bock")
    get("/beers/1")
    assert_equal [3, 0], counts("GET /beers/*", 4), "another row"
    rename_and_wait("/beers/1", "Dunkel")
    assert_equal "Dunkel", get("/beers/1")
    assert_equal [3, 0], counts("GET /beers/*", 5)
    assert_equal "Dunkel", get("/beers/1")
    assert_equal [4, 0], counts("GET /beers/*", 6)
    text, = command(@server, "cache", "advise")
    assert_match(%r{^GET /beers/\*   66 % could be hits   reads beers#id   0 of 4 comparisons differed$}, text)
  end

  def test_lists_depend_on_all_of_their_rows
    start("-w", "1")
    2.times { get("/beers") }
    2.times { get("/counted") }
    rename_and_wait("/beers/3", "Bock")
    assert_equal "Pils,Pils,Bock", get("/beers")
    assert_equal "2", get("/counted")
    assert_equal [1, 0], counts("GET /beers", 3)
    assert_equal [1, 0], counts("GET /counted", 3)
  end

  def test_why_a_page_is_what_it_is
    start("-w", "1")
    get("/beers/1")
    route("GET /beers/*", 1)
    url = "http://127.0.0.1:#{@server.port}/beers/1"
    text, status = command(@server, "cache", "why", url)
    assert_equal 0, status, text
    assert_match(/^would be a hit since /, text)
    assert_match(/^  reads beers#id   config\.ru:\d+$/, text)
    rename_and_wait("/beers/1", "Bock")
    text, = command(@server, "cache", "why", url)
    assert_match(/^would be a miss$/, text)
    assert_match(/^dropped last at \S+ by UPDATE "beers" SET "name" = \?/, text)
  end

  def test_what_is_rolled_back_drops_nothing
    start("-w", "1")
    get("/beers/1")
    rename("/undone/1", "Bock")
    assert_equal "Pils", get("/beers/1")
    assert_equal [1, 0], counts("GET /beers/*", 2)
  end

  def test_pages_that_can_not_be_cached_say_why
    start("-w", "1")
    2.times { get("/clock") }
    2.times { get("/theme") }
    clock = route("GET /clock", 2)
    assert_equal [0, 2], clock.values_at("hits", "refused")
    assert_equal ["reads Time.now"], clock["refusals"].map { |one| one["why"] }
    assert_match(/\Aconfig\.ru:\d+\z/, clock["refusals"][0]["at"])
    assert_equal "sets the cookie theme", route("GET /theme", 2)["refusals"][0]["why"]
    assert_match(%r{^GET /clock\s+never\s+reads Time\.now in config\.ru:\d+$}, command(@server, "cache", "advise").first)
  end

  def test_a_page_for_each_value_of_a_cookie
    start("-w", "1")
    %w[de en de en de].each { |locale| assert_equal "in #{locale}", get("/locale", "Cookie" => "locale=#{locale}; other=#{rand}") }
    found = route("GET /locale", 5)
    assert_equal [3, 0], found.values_at("hits", "differed")
    assert_equal [{ "name" => "cookie locale", "values" => 2 }], found["varies"]
  end

  def test_a_page_that_depends_on_what_nobody_sees_differs
    start("-w", "1")
    2.times { get("/unseen") }
    found = route("GET /unseen", 2)
    assert_equal [1, 1], found.values_at("hits", "differed")
    assert_equal ["seen 1 times", "seen 2 times"], found["difference"].values_at("kept", "application")
    assert_match(/would have been shown  seen 1 times\n  the application        seen 2 times/, command(@server, "cache", "advise").first)
  end

  def test_what_was_read_before_a_write_is_not_kept
    start("-w", "1", "-t", "2")
    arrived, door = barrier(@dir, "arrived"), barrier(@dir)
    slow = open_request("/slow/1")
    arrived.wait
    rename_and_wait("/beers/1", "Bock")
    door.open
    assert_equal "Pils", Wire.response(slow).body
    route("GET /slow/*", 1)
    again = open_request("/slow/1")
    arrived.wait
    door.open
    assert_equal "Bock", Wire.response(again).body
    assert_equal [0, 0], counts("GET /slow/*", 2)
  end

  def test_a_worker_that_is_killed_before_its_commit
    start("-w", "2", "-t", "1")
    arrived, = barrier(@dir, "arrived"), barrier(@dir)
    2.times { get("/beers/1") }
    assert_equal [1, 0], counts("GET /beers/*", 2)
    open_request("/held/1", "Content-Length: 0", method: "POST")
    holder = Integer(arrived.wait)
    # It may be committed at any moment: what is read now is not kept.
    2.times { assert_equal "Pils", get("/beers/1") }
    assert_equal [1, 0], counts("GET /beers/*", 4)
    before = connected
    Process.kill(:KILL, holder)
    eventually("another worker") { connected == before && !File.exist?("/proc/#{holder}") }
    # What it had announced counts as under way for some seconds more: a database may be about to do it.
    eventually("a page that is kept again") do
      assert_equal "Pils", get("/beers/1")
      route_now("GET /beers/*")["hits"] == 2
    end
    assert_equal 0, route_now("GET /beers/*")["differed"]
  end

  def route_now(label)
    sites = command_json(@server, "cache", "advise", "--json")["sites"]
    sites.values.flat_map { |site| site["routes"] }.find { |one| one["route"] == label }
  end

  # Processes of the application that announce their writes.
  def connected = command_json(@server, "cache", "advise", "--json")["sites"].values.sum { |site| site["processes"] }

  def test_reads_of_a_body_that_streams
    start("-w", "1")
    2.times { assert_equal "beer Pils", get("/stream/1") }
    rename_and_wait("/beers/1", "Bock")
    assert_equal "beer Bock", get("/stream/1")
    found = route("GET /stream/*", 3)
    assert_equal [[1, 0], ["beers#id"]], [found.values_at("hits", "differed"), found["reads"].map { |one| one["what"] }]
  end

  def test_writes_of_one_worker_drop_pages_of_another
    start("-w", "2", "-t", "1")
    names = Array.new(4) do |visitor|
      Thread.new do
        Array.new(25) do |nth|
          rename("/beers/#{visitor % 2 + 1}", "#{visitor}-#{nth}") if nth % 5 == visitor
          get("/beers/#{nth % 3 + 1}")
        end
      end
    end
    assert_equal 100, names.sum { |thread| thread.value.size }
    found = route("GET /beers/*", 100)
    assert_equal 0, found["differed"], found["difference"].inspect
    assert_operator found["hits"], :>, 0
  end

  def test_a_console_announces_its_writes
    start("-w", "1")
    2.times { get("/beers/1") }
    assert_equal [1, 0], counts("GET /beers/*", 2)
    script = <<~RUBY
      require "active_record"
      require "paceline/auto_cache"
      ActiveRecord::Base.establish_connection(adapter: "sqlite3", database: "shop.sqlite3")
      Class.new(ActiveRecord::Base) { self.table_name = "beers" }.first # the connection is there before
      Paceline::AutoCache.announce
      Class.new(ActiveRecord::Base) { self.table_name = "beers" }.find(1).update!(name: "Bock")
    RUBY
    out, status = Open3.capture2e(RbConfig.ruby, "-I#{CHECKOUT}/gem/lib", "-e", script, chdir: @dir)
    assert_predicate status, :success?, out
    eventually("the write to be done") { writes == 1 }
    2.times { assert_equal "Bock", get("/beers/1") }
    assert_equal [2, 0], counts("GET /beers/*", 4)
  end

  def test_off_is_the_default
    start("-w", "1", settings: "")
    assert_equal "", get("/environment")
    assert_match(/\ANo site is watched: /, command(@server, "cache", "advise").first)
    text, status = command(@server, "cache", "why", "http://127.0.0.1:#{@server.port}/beers/1")
    assert_equal 1, status
    assert_match(/is not watched/, text)
  end

  def test_modes_that_do_not_exist
    dir = app("config.ru" => APP, "paceline.toml" => "[auto_cache]\nmode = \"on\"\n")
    server = serve(dir, ready: false, port: false)
    refute_equal 0, server.wait.exitstatus
    assert_match(/auto_cache.*mode = "off", "watch", "verify" or "serve"/, server.output)
  end
end
