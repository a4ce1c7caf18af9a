# The automatic page cache of a Rails application on PostgreSQL: pages are learned, compared and shown, and dropped before what
# changes them is committed, however it is written.
require "json"
require_relative "../../../gem/test/server/shadow/support/postgresql"
require_relative "../support/asking"
require_relative "../support/rails_shop"
require_relative "../support/scenario"

class CacheAutoPostgresqlTest < Minitest::Test
  include Scenario
  include Asking
  include RailsShop

  SCHEMA = <<~SQL.freeze
    DROP TABLE IF EXISTS beers, changes;
    CREATE TABLE beers (id serial PRIMARY KEY, name text NOT NULL, style text NOT NULL, opens timestamp(6));
    CREATE TABLE changes (id serial PRIMARY KEY, beer integer NOT NULL);
    INSERT INTO beers (name, style) VALUES ('Pils', 'lager'), ('Porter', 'ale'), ('Stout', 'ale');
    CREATE OR REPLACE FUNCTION note_change() RETURNS trigger AS 'BEGIN INSERT INTO changes (beer) VALUES (NEW.id); RETURN NEW; END' LANGUAGE plpgsql;
    CREATE TRIGGER noted AFTER UPDATE ON beers FOR EACH ROW EXECUTE FUNCTION note_change();
    CREATE OR REPLACE FUNCTION rename_beer(integer, text) RETURNS text AS 'UPDATE beers SET name = $2 WHERE id = $1 RETURNING name' LANGUAGE sql;
  SQL

  APP = RailsShop.config_ru(<<~RUBY, railties: %w[active_record action_controller]).freeze
    class Beer < ActiveRecord::Base; end
    class Change < ActiveRecord::Base; end

    # Waits for the test between the announcement of a write and its COMMIT, or dies when it is committed. By descriptors alone, which nobody sees.
    PASS = ->(word) {
      %w[arrived w barrier r].each_slice(2) do |name, mode|
        pipe = IO.new(IO.sysopen(File.join(__dir__, name), mode), mode)
        mode == "w" ? pipe.write(word) : pipe.read
        pipe.close
      end
    }
    COMMITS = Class.new do
      def start(_, _, payload) = Thread.current[:at_commit] == "wait" && payload[:sql].match?(/\\Acommit/i) && PASS.call(Process.pid.to_s)
      def finish(_, _, payload) = Thread.current[:at_commit] == "die" && payload[:sql].match?(/\\Acommit/i) && Process.kill(:KILL, Process.pid)
    end
    ActiveSupport::Notifications.subscribe("sql.active_record", COMMITS.new)

    class BeersController < ActionController::Base
      skip_forgery_protection
      def index = render(plain: Beer.order(:id).pluck(:name).join(","))
      def show = render(plain: Beer.find(params[:id]).name)
      def style = render(plain: Beer.where(style: params[:style]).order(:id).map(&:name).join(","))
      def open = render(plain: Beer.where("beers.opens <= ?", Time.current).count.to_s)
      def changes = render(plain: Change.count.to_s)

      def write
        Thread.current[:at_commit] = params[:at_commit]
        how(params[:how], Beer.find(params[:id]), params[:name])
        render plain: "written"
      end

      private

      def how(kind, beer, name)
        case kind
        when "model" then beer.update!(name: name)
        when "open" then beer.update!(opens: Time.at(name.to_r))
        when "all" then Beer.where(id: beer.id).update_all(name: name)
        when "sql" then Beer.connection.execute("UPDATE beers SET name = '\#{name}' WHERE id = \#{beer.id}")
        when "driver" then Beer.connection.raw_connection.exec_params("UPDATE beers SET name = $2 WHERE id = $1", [beer.id, name])
        when "function" then Beer.connection.select_value("SELECT rename_beer(\#{beer.id}, '\#{name}')")
        when "upsert" then Beer.upsert_all([{ id: beer.id, name: name, style: beer.style }], unique_by: :id)
        when "new" then beer.destroy! && Beer.create!(id: beer.id, name: name, style: beer.style)
        when "savepoint"
          Beer.transaction do
            beer.update!(name: name)
            Beer.transaction(requires_new: true) do
              Beer.update_all(name: "never")
              raise ActiveRecord::Rollback
            end
          end
        when "rollback"
          Beer.transaction do
            beer.update!(name: name)
            raise ActiveRecord::Rollback
          end
        end
      end
    end
    Rails.application.routes.draw do
      get "/beers", to: "beers#index"
      get "/open", to: "beers#open"
      get "/changes", to: "beers#changes"
      get "/beers/:id", to: "beers#show"
      get "/styles/:style", to: "beers#style"
      post "/beers/:id", to: "beers#write"
    end
  RUBY

  WRITES = %w[model all sql driver function upsert new savepoint].freeze
  SERVE = "[auto_cache]\nmode = \"serve\"\nverify = \"0%\"\n".freeze
  HIT = /\Apaceline; hit; ttl=\d+; detail=auto\z/
  ROUTES = { "GET /beers/*" => "/beers/1", "GET /beers" => "/beers", "GET /styles/ale" => "/styles/ale", "GET /changes" => "/changes" }.freeze

  # A shop with three beers, two workers.
  def shop(settings: SERVE)
    skip_without_rails
    PostgreSQL.with do |database|
      @database = database
      database.query(SCHEMA)
      yml = "production:\n  adapter: postgresql\n  host: #{database.host}\n  database: postgres\n  username: postgres\n  pool: 5\n"
      @dir = app("config.ru" => APP, "paceline.toml" => settings, "config/database.yml" => yml)
      # Without the other cache, which has scenarios of its own.
      @server = serve(@dir, "-w", "2", "-t", "1", env: { "XDG_STATE_HOME" => File.join(@dir, "state") })
      yield
    ensure
      @server&.kill
    end
  end

  def get(path)
    answer = @server.get(path)
    assert_equal "200", answer.code, answer.body
    answer
  end

  def hit?(answer) = HIT.match?(answer["cache-status"].to_s)

  # The page as a hit. A server that is late shows none for a moment.
  def hit(path)
    eventually("a hit of #{path}") do
      answer = get(path)
      answer if hit?(answer)
    end
  end

  def post(path, fields)
    request = Net::HTTP::Post.new(path)
    request.set_form_data(fields)
    @server.request(request)
  end

  # By another visitor than the one who reads: who has written is compared again.
  def rename(id, how, name)
    request = Net::HTTP::Post.new("/beers/#{id}", "User-Agent" => "editor")
    request.set_form_data("how" => how, "name" => name)
    answer = @server.request(request)
    assert_equal "200", answer.code, answer.body
  end

  def stages
    sites = command_json(@server, "cache", "advise", "--json")["sites"]
    sites.values.flat_map { |site| site["routes"] }.to_h { |one| one.values_at("route", "stage") }
  end

  # Asks for pages until their routes are served: 300 comparisons each, of two browsers.
  def prove(routes)
    Net::HTTP.start("127.0.0.1", @server.port, read_timeout: PATIENCE) do |http|
      routes.each do |label, path|
        eventually("#{label} to be served") do
          50.times { |nth| http.get(path, "User-Agent" => "browser #{nth % 2}") }
          stages[label] == "serving"
        end
      end
    end
  end

  # After the block the pages are hits at once. A server that is late shows none for a moment: then once more.
  def assert_stays(paths, why)
    eventually("#{paths.join(", ")} to stay: #{why}") do
      paths.each { |path| hit(path) }
      yield
      paths.all? { |path| hit?(get(path)) }
    end
  end

  def test_a_page_is_shown_until_it_is_written_however_that_is_done
    shop do
      prove(ROUTES)
      WRITES.each do |how|
        ROUTES.each_value { |path| hit(path) }
        counted = get("/changes").body.to_i
        rename(1, how, "by #{how}")
        assert_equal "by #{how}", get("/beers/1").body
        assert_equal "by #{how},Porter,Stout", get("/beers").body, how
        assert_equal how == "new" ? counted : counted + 1, get("/changes").body.to_i, "#{how}: by the trigger"
        assert_equal "by #{how}", hit("/beers/1").body
      end

      assert_stays(%w[/beers/1 /beers/2 /beers], "rolled back") { rename(1, "rollback", "never") }
      assert_stays(%w[/beers/2 /beers/3], "another row, and a savepoint that was rolled back") { rename(1, "savepoint", "Bock") }
      assert_equal ["Porter,Stout", "Bock,Porter,Stout"], ["/styles/ale", "/beers"].map { |path| get(path).body }
      assert_equal(ROUTES.keys.to_h { |label| [label, "serving"] }, stages.slice(*ROUTES.keys))
    end
  end

  CONSOLE = <<~RUBY.freeze
    require "active_record"
    require "paceline/auto_cache"
    ActiveRecord::Base.establish_connection(YAML.load_file("config/database.yml")["production"])
    Paceline::AutoCache.announce
    beer = Class.new(ActiveRecord::Base) { self.table_name = "beers" }
    STDOUT.sync = true
    while (name = gets&.chomp)
      beer.transaction { beer.find(2).update!(name: name) }
      puts "committed"
    end
  RUBY

  def test_another_process_writes
    shop do
      prove("GET /beers/*" => "/beers/2")
      IO.popen([RbConfig.ruby, "-I#{CHECKOUT}/gem/lib", "-e", CONSOLE, { chdir: @dir }], "r+") do |console|
        20.times do |nth|
          hit("/beers/2")
          console.puts "nr #{nth}"
          assert_equal "committed\n", Timeout.timeout(PATIENCE) { console.gets }
          assert_equal "nr #{nth}", get("/beers/2").body
        end
        console.close_write
      end
    end
  end

  def test_a_process_that_dies_before_or_after_its_commit
    shop do
      prove("GET /beers/*" => "/beers/1")
      hit("/beers/1")
      arrived, = barrier(@dir, "arrived"), barrier(@dir)
      body = URI.encode_www_form("how" => "model", "name" => "never", "at_commit" => "wait")
      socket = open_request("/beers/1", "Content-Type: application/x-www-form-urlencoded", "Content-Length: #{body.bytesize}", method: "POST")
      socket.write(body)
      holder = Integer(arrived.wait)
      5.times { refute hit?(get("/beers/1")), "it may be committed at any moment" }
      Process.kill(:KILL, holder)
      assert_equal "Pils", hit("/beers/1").body

      refute_equal "200", post("/beers/1", "how" => "model", "name" => "Bock", "at_commit" => "die").code
      assert_equal "Bock", get("/beers/1").body
      assert_equal "Bock", hit("/beers/1").body
    end
  end

  def test_what_another_program_writes_is_seen_after_max_ttl
    shop(settings: "#{SERVE}max_ttl = \"3s\"\n") do
      prove("GET /beers/*" => "/beers/1")
      hit("/beers/1")
      @database.query("UPDATE beers SET name = 'Export' WHERE id = 1")
      eventually("the page to end") do
        answer = get("/beers/1")
        assert_operator answer["age"].to_i, :<=, 3
        assert hit?(answer), "an old page is one that was kept" if answer.body == "Pils"
        answer.body == "Export"
      end
      told, = command(@server, "check", env: { "PACELINE_GEM_DIR" => File.join(CHECKOUT, "gem") })
      assert_match(/not seen, unless it is a file of SQLite: a page may show what was there before for up to max_ttl = "3s"$/, told)
    end
  end

  def test_a_page_changes_when_the_next_row_opens
    shop do
      prove("GET /open" => "/open")
      moment = Time.at((Time.now + 2).to_i)
      rename(1, "open", moment.to_r.to_s)
      answers = []
      until answers.any? && answers.last[0] > moment + 0.5
        asked = Time.now
        answer = get("/open")
        answers << [asked, Time.now, answer.body, hit?(answer)]
      end
      assert_equal [], answers.select { |at, _, body,| at >= moment && body != "1" }.first(3), "a page that is too old"
      assert_equal [], answers.select { |_, came, body,| came < moment && body != "0" }.first(3)
      %w[0 1].each { |said| assert_operator answers.count { |_, _, body, hit| hit && body == said }, :>, 20 }
    end
  end
end
