# frozen_string_literal: true

require "helper"
require "paceline/server/shadow/evidence"

# The parts of evidence that need no application.
class ShadowEvidencePartsTest < Paceline::Test
  Evidence = Paceline::Server::Shadow::Evidence

  def shape(sql, adapter = "sqlite3")
    Evidence::SqlShape.of(sql, adapter)
  end

  def test_shapes
    assert_equal "SELECT * FROM beers WHERE id IN (?) AND name = ? AND ibu > ?", shape("SELECT *  FROM beers\n WHERE id IN (1, 2,3) AND name = 'it''s' AND ibu > -5.2e3")
    assert_equal shape("SELECT 1 WHERE id IN (?)"), shape("SELECT 1 WHERE id IN (?, ?, ?) -- a comment\n /* another */ ")
    assert_equal 'SELECT "a"."1b" FROM t1 WHERE x - ? = :: ?', shape('SELECT "a"."1b" FROM t1 WHERE x - 3 = :: $1')
    assert_equal "SELECT ?, ?::int, ?", shape("SELECT $$it's$$, '5'::int, E'a\\'b'", "postgresql")
    assert_equal "SELECT ? FROM `t` WHERE a = ?", shape("SELECT \"te\\\"xt\" FROM `t` WHERE a = 'b\\'c' # hm", "mysql2")
    assert_equal "SELECT größe FROM t WHERE n = ?", shape("SELECT größe FROM t WHERE n = 'ü'")
    assert_equal ["", "?", "SELECT ?"], [shape(""), shape("'open"), shape("SELECT \xff")]
  end

  # Twice the text takes twice as many steps, whatever it is: none of these ends within the time of a test otherwise.
  def test_shapes_of_long_texts
    ["'", "/*", "$a$", "\"", "-", "IN (?,", "e'", "$", ":", "1e", "x'"].each do |text|
      ["sqlite3", "mysql2"].each { |adapter| assert_kind_of String, shape(text * 20_000, adapter) }
    end
  end

  def columns(sql, name, known, joined: false)
    Evidence::SqlConditions.new(sql).columns(name, known, joined: joined)
  end

  def test_conditions
    known = %w[style ibu brewery_id abv]
    assert_equal %w[style], columns('SELECT * FROM "beers" WHERE "beers"."style" = ?', "beers", known)
    assert_equal %w[style ibu], columns("SELECT * FROM beers WHERE ibu > 3 AND abv < 5 AND style IN (?, ?) ORDER BY name", "beers", known)
    assert_equal %w[ibu], columns("SELECT * FROM beers WHERE (ibu BETWEEN 1 AND 5) AND NOT (style = 1) AND LOWER(style) = ? AND abv IS NOT NULL", "beers", known)
    assert_empty columns("SELECT * FROM beers WHERE style = 1 OR ibu = 2", "beers", known)
    assert_equal %w[abv], columns("SELECT * FROM beers WHERE (style = 1 OR ibu = 2) AND 5 = abv", "beers", known)
    assert_empty columns("SELECT * FROM beers WHERE style LIKE '%x' AND unknown = 1", "beers", known)
    joined = "SELECT * FROM beers AS b LEFT JOIN notes ON notes.beer_id = b.id AND notes.score = 3 WHERE b.style = 1"
    assert_equal [%w[style], %w[score beer_id]], [columns(joined, "b", known), columns(joined, "notes", %w[beer_id score], joined: true)]
    assert_equal ["beers", "notes", nil], %w[b notes x].map { |name| Evidence::SqlConditions.new(joined).table(name) }
    assert_empty columns("SELECT * FROM beers WHERE #{"(" * 5000}", "beers", known)
  end

  def test_conditions_that_a_value_equals
    known = %w[style ibu abv]
    equal = ->(sql) { Evidence::SqlConditions.new(sql).equal("beers", known) }
    assert_equal %w[style ibu], equal['SELECT * FROM "beers" WHERE "beers"."style" = $1 AND "beers"."abv" IS NULL AND ibu = ANY (ARRAY[1, 2]) AND abv > 3']
    assert_empty equal["SELECT * FROM beers WHERE style IS NOT NULL AND LOWER(style) = $1 AND style::text = $2"]
    assert_equal %w[abv style], columns("SELECT * FROM beers WHERE abv IS NULL AND style = ?", "beers", known), "an index answers both"
  end

  # Time stands still but for `spend`.
  def with_held_time(&block)
    @now = 0.0
    Evidence::Clock.stub(:raw, -> { @now }, &block)
  end

  def spend(microseconds)
    @now += microseconds
  end

  def test_meters_count_no_time_twice
    with_held_time do
      meter = Evidence::Meter.new
      meter.run { spend(1) && meter.run { spend(2) && meter.pause { spend(4) && meter.pause { spend(8) } } && spend(16) } }
      assert_equal 19, meter.us
      assert_equal 7, meter.run { meter.pause { 7 } }
      assert_raises(RuntimeError) { meter.run { spend(32) && raise("x") } }
      meter.pause { spend(64) && meter.run { spend(128) } }
      assert_equal 179, meter.us
    end
  end

  def test_own_work_of_observers_takes_no_time
    with_held_time do
      began = Evidence::Clock.now
      Evidence::Clock.aside { spend(1) && Evidence::Clock.aside { spend(2) } }
      spend(4)
      assert_equal 4, Evidence::Clock.now - began
    end
  end

  # What is said of a page's parts is held against what the page takes, and that is without it.
  def test_waiting_for_a_processor_takes_no_time
    waited, now = 0, 0.0
    schedule = Object.new
    schedule.define_singleton_method(:pread) { |*| "7000 #{waited} 3\n" }
    File.stub(:open, schedule) { Thread.new { Evidence::Clock.follow_thread }.join }
    Process.stub(:clock_gettime, ->(*) { now }) do
      began = Evidence::Clock.now
      now, waited = 5_000.0, 3_000_000
      assert_in_delta 2_000, Evidence::Clock.now - began, 500
      # The thread has ended.
      schedule.define_singleton_method(:pread) { |*| raise Errno::ESRCH }
      assert_in_delta 2_000, Evidence::Clock.now - began, 500
    end
  ensure
    Evidence::Clock.follow_thread
  end

  def test_places
    in_tmpdir("app/x.rb" => "def place_of_x(places) = places.here\n", "vendor/y.rb" => "def place_of_y(places) = place_of_x(places)\n") do |dir|
      load File.join(dir, "app/x.rb")
      load File.join(dir, "vendor/y.rb")
      places = Evidence::Places.new(dir)
      assert_equal "app/x.rb:1", place_of_y(places)
      assert_equal "", places.here
      assert_equal ["app/x.rb", "pager-1.2/views/x.erb", "/elsewhere/x"],
                   [places.name("#{dir}/app/x.rb"), places.name("/usr/gems/ruby/gems/pager-1.2/views/x.erb"), places.name("/elsewhere/x")]
    end
  end

  # A middleware that works on each piece of the body, before an application that makes them late.
  class Upcase
    Body = Struct.new(:body, :test) do
      def each
        test.spend(1)
        body.each { |piece| yield piece.upcase.tap { test.spend(2) } }
      end

      def close = body.close
    end

    def initialize(app, test)
      @app = app
      @test = test
    end

    def call(env)
      @test.spend(4)
      status, headers, body = @app.call(env)
      @test.spend(8)
      [status, headers, Body.new(body, @test)]
    end
  end

  Late = Struct.new(:test, :closed) do
    def each
      %w[a b].each do |piece|
        test.spend(1000)
        yield piece
      end
    end

    def close
      test.spend(1000)
      self.closed = true
    end
  end

  def observed(app, env = {})
    evidence = Evidence.new(root: "/nowhere", app: app)
    pieces = []
    with_held_time do
      evidence.around(env) do
        body = app.call(env)[2]
        body.each { |piece| pieces << piece.tap { spend(5000) } }
        body.close
      end
    end
    [evidence.to_h, pieces.join]
  end

  def test_middleware_of_a_rack_application
    return if apart # it leaves hooks behind

    body = Late.new(self)
    evidence, text = observed(Upcase.new(->(_env) { spend(1000) && [200, {}, body] }, self))
    assert_equal ["AB", true], [text, body.closed]
    # What the application and the server take is not the middleware's.
    at = Upcase.instance_method(:call).source_location.join(":")
    assert_equal [{ name: "ShadowEvidencePartsTest::Upcase", at: at, own_us: 17 }], evidence[:middleware]
    assert_equal [[], [], [], nil, nil], evidence.values_at(:sql, :views, :outbound, :xml, :session)
  end

  def test_frozen_middleware_is_left_out
    return if apart # it leaves hooks behind

    evidence, text = observed(Upcase.new(->(_env) { [200, {}, Late.new(self)] }, self).freeze)
    assert_equal ["AB", []], [text, evidence[:middleware]]
  end

  def test_evidence_of_one_request_is_not_the_next_ones
    return if apart # it leaves hooks behind

    evidence = Evidence.new(root: "/nowhere", app: ->(_env) {})
    evidence.around({}) { GC.start }
    runs = evidence.to_h[:gc][:runs]
    assert_operator runs, :>=, 1
    evidence.around({}) { nil }
    assert_operator evidence.to_h[:gc][:runs], :<, runs
  end
end
