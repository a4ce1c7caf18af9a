# Somebody sets the clock while the server serves, by an hour in either direction: nothing lasts longer or shorter for it, and what tells the time tells
# the new one.
require_relative "../support/scenario"
require_relative "../support/asking"
require_relative "../support/set_clock"
require_relative "../support/wire"
require "time"

class ClockTest < Minitest::Test
  include Scenario
  include Asking

  HOUR = 3600
  # Each answer has a number of its own. `/dated`: fresh until a time of day, and from one with ?date.
  APP = <<~RUBY.freeze
    require "time"
    COUNT = Queue.new
    Thread.new { 1.upto(10_000) { |n| COUNT << n } }.join
    run(lambda do |env|
      File.write("entered", "x") && File.read("barrier") if env["PATH_INFO"] == "/held"
      headers =
        case env["PATH_INFO"]
        when "/day" then { "cache-control" => "max-age=86400" }
        when "/second" then { "cache-control" => "max-age=1" }
        when "/until" then { "expires" => (Time.now + 600).httpdate }
        when "/dated" then { "date" => Time.now.httpdate, "expires" => (Time.now + 600).httpdate }
        else {}
        end
      [200, { "content-type" => "text/plain" }.merge(headers), [COUNT.pop.to_s]]
    end)
  RUBY

  def setup
    skip(SetClock.missing) if SetClock.missing
    @dir = app("config.ru" => APP)
    @clock = SetClock.new(app)
  end

  def start(*arguments)
    serve(@dir, "-w", "1", "-t", "2", "-e", "production", *arguments, env: @clock.env)
  end

  def each_way
    [HOUR, -HOUR, 0].each do |seconds|
      @clock.set(seconds)
      yield seconds
    end
  end

  def age(server, path) = server.get(path).then { |answer| [answer.body, answer["age"].to_i] }

  def test_what_is_kept_is_fresh_as_long_as_it_was
    server = start
    first = server.get("/day").body
    each_way do |seconds|
      body, age = age(server, "/day")
      assert_equal first, body, "after #{seconds} s"
      assert_operator age, :<, 600, "after #{seconds} s"
    end
  end

  def test_what_is_kept_is_stale_as_soon_as_it_was
    server = start
    each_way do |seconds|
      first = server.get("/second").body
      @clock.set(seconds - HOUR)
      eventually("#{first} to be stale, an hour before #{seconds} s") { server.get("/second").body != first }
    end
  end

  # Dates in fields are the time of day, and are compared to it.
  def test_what_is_kept_by_dates_is_kept_as_long_whatever_the_time_is
    server = start
    each_way do |seconds|
      %w[/until /dated].each do |path|
        first = server.get("#{path}?#{seconds}").body
        body, age = age(server, "#{path}?#{seconds}")
        assert_equal [first, true], [body, age < 600], "#{path} after #{seconds} s"
      end
    end
  end

  def test_date_fields_and_logs_tell_the_new_time
    server = start
    each_way do |seconds|
      assert_in_delta @clock.now, Time.httpdate(server.get("/?#{seconds}")["date"]), 60, "after #{seconds} s"
      line = server.wait_for(/\[(.*?)\] "GET \/\?#{seconds} /)[1]
      assert_in_delta @clock.now, Time.strptime(line, "%d/%b/%Y:%H:%M:%S %z"), 60, "after #{seconds} s"
    end
  end

  def test_uptime_is_a_duration
    server = start
    each_way { |seconds| assert_includes 0..600, control_json(server, "/status")["uptime"], "after #{seconds} s" }
  end

  def test_nobody_is_timed_out_and_no_rate_is_forgotten
    write(@dir, "paceline.toml" => <<~TOML)
      [[rate_limit]]
      path = "/limited"
      rate = "1/h"
      burst = 1
    TOML
    gate = barrier(@dir)
    entered = barrier(@dir, "entered")
    server = start
    assert_equal "200", server.get("/limited").code
    held = Thread.new { server.get("/held").code }
    entered.wait
    server.connect do |idle|
      idle.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
      assert_equal 200, Wire.response(idle).status
      each_way do |seconds|
        assert_equal "429", server.get("/limited").code, "after #{seconds} s"
        idle.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert_equal 200, Wire.response(idle).status, "after #{seconds} s"
      end
    end
    gate.open
    assert_equal "200", held.value
    refute_match(/app_hard_timeout|replacing|killed/, server.output)
  end
end
