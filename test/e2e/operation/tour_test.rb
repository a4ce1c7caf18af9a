# `paceline tour` walks through what the server does for an application, with a server of its own.
require "open3"
require_relative "../support/scenario"

class TourTest < Minitest::Test
  include Scenario

  # `/basket` has a cookie; `/private` must never be kept.
  APP = <<~'RUBY'.freeze
    run(lambda do |env|
      headers = { "content-type" => "text/html" }
      headers["set-cookie"] = "basket=1; path=/" if env["PATH_INFO"] == "/basket" && !env["HTTP_COOKIE"]
      headers["cache-control"] = "no-store" if env["PATH_INFO"] == "/private"
      sleep 0.02 # a page that takes its time
      [200, headers, ["<p>page</p>"]]
    end)
  RUBY

  def setup
    @dir = app("config.ru" => APP)
  end

  def tour(*arguments, input: "", dir: @dir)
    env = { "PACELINE_GEM_DIR" => File.join(CHECKOUT, "gem"), "RACK_ENV" => nil, "PORT" => nil, "PACELINE_CONTROL" => nil }.merge(AS_ROOT)
    out, status = Open3.capture2e(env, BIN, "tour", *arguments, chdir: dir, stdin_data: input)
    [out, status.exitstatus]
  end

  def test_serves_and_says_how_long_it_took
    out, status = tour("--step", "1")
    assert_equal 0, status, out
    assert_match(%r{Listening on http://127\.0\.0\.1:\d+$}, out)
    assert_match(%r{GET /: 200 OK, 11 bytes}, out)
    assert_match(/[\d.]+ s until it serves/, out)
    assert_equal ["config.ru"], Dir.children(@dir) - ["tmp"], "no file is added but the server's own below tmp"
  end

  def test_caches_a_page_one_copy_for_each_visitor
    out, status = tour("--step", "3", "--path", "/basket")
    assert_equal 0, status, out
    assert_includes out, %(cookies = ["basket"])
    assert_match(/ms -> .*: the median without and with the cache/, out)
  end

  def test_says_why_a_page_is_not_kept
    out, status = tour("--step", "3", "--path", "/private")
    assert_equal 0, status, out
    assert_match(/Not stored: \S+/, out)
  end

  def test_restarts_under_load_without_a_failed_request
    out, status = tour("--step", "5")
    assert_equal 0, status, out
    assert_match(/is ready: /, out)
    assert_match(/^  \d+ requests, 0 failed$/, out)
  end

  def test_says_where_a_requests_time_goes
    out, status = tour("--step", "2")
    assert_equal 0, status, out
    assert_includes out, "$ paceline bench -k -c 1 -t 3 http://127.0.0.1:"
    median = out[/([\d.]+) ms: the median/, 1] or flunk(out)
    assert_operator median.to_f, :>=, 20, "the page takes its time"
    # Its sleep is no SQL, view or garbage collection.
    assert_match(/Most of it, \d+ %, is\s/, out)
  end

  def test_all_five_steps_without_a_key
    out, status = tour("--yes")
    assert_equal 0, status, out
    titles = ["Serve it", "See where a request's time goes", "Cache a page", "Ask the doctor", "Deploy under load"]
    assert_equal titles.each_with_index.map { |title, nth| "#{nth + 1} of 5   #{title}" }, out.scan(/^\d of 5   .*/)
    [/s until it serves/, /: the median$/, /the median without and with the cache/, /Only changes whose gain is sure/, /^  \d+ requests, 0 failed$/, /That was the tour/].each { |figure| assert_match figure, out }
    refute_includes out, "No result", "the doctor has an answer"
    assert_equal %w[config.ru], Dir.children(@dir) - ["tmp"]
  end

  def test_an_application_that_does_not_start
    out, status = tour("--step", "1", dir: app("config.ru" => "raise 'no such setting'\n"))
    assert_equal 1, status, out
    assert_match(/paceline: the application does not start; `paceline check` says more/, out)
    assert_includes out, "no such setting"
  end

  def test_mistakes
    { %w[--step 6] => "1 to 5", %w[--path beers] => "must begin with /", %w[now] => "now" }.each do |arguments, sentence|
      out, status = tour(*arguments)
      assert_equal 2, status, out
      assert_includes out, sentence
    end
  end
end
