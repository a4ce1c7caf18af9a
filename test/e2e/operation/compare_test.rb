# `paceline compare` measures two versions of an application beside each other, and leaves nothing running however it ends.
require "json"
require "open3"
require_relative "../support/scenario"

class CompareTest < Minitest::Test
  include Scenario

  # As little as it takes: five rounds of a tenth of a second.
  QUICK = %w[--rounds 5 --time 0.1 --requests 20 -c 2 -w 1 -t 2].freeze
  QUICKLY = "run ->(_) { [200, {}, ['ok']] }\n".freeze
  # Many times as long as anything else here takes.
  SLOWLY = "run ->(_) { sleep 0.1; [200, {}, ['ok']] }\n".freeze
  # Writes what each request has.
  NOTES = <<~'RUBY'.freeze
    run(lambda do |env|
      File.write("seen", "#{env["PATH_INFO"]} #{env["HTTP_COOKIE"]} #{env["HTTP_X_FORWARDED_PROTO"]} #{ENV["RAILS_ENV"]}\n", mode: "a")
      [200, { "set-cookie" => "visit=#{File.basename(Dir.pwd)}; path=/" }, ["ok"]]
    end)
  RUBY

  def setup
    @env = { "PACELINE_GEM_DIR" => File.join(CHECKOUT, "gem"), "RACK_ENV" => nil, "RAILS_ENV" => nil, "APP_ENV" => nil, "PORT" => nil, "PACELINE_CONTROL" => nil }.merge(AS_ROOT)
  end

  # What it printed; what it complained of is in @said.
  def compare(*arguments, status: 0)
    out, @said, ended = Open3.capture3(@env, BIN, "compare", *arguments)
    assert_equal status, ended.exitstatus, out + @said
    out
  end

  # Processes that were started for an application in DIR.
  def left(dir)
    Dir["/proc/[0-9]*"].select do |process|
      File.readlink("#{process}/cwd") == dir || File.read("#{process}/cmdline").include?(dir)
    rescue SystemCallError
      false
    end
  end

  def test_the_slow_version_is_named
    a, b = app("config.ru" => QUICKLY), app("config.ru" => SLOWLY)
    out = compare(*QUICK, "--time", "0.4", a, b)
    assert_match(/^A  #{a}: ruby \d/, out)
    assert_match(%r{^requests/s +[\d,.]+ +[\d,.]+  0\.\d+ \(0\.\d+ to 0\.\d+\)$}, out)
    assert_match(%r{^/: B is \d+ % slower \(\d+ to \d+\); median}, out)
    assert_match(/^private dirty MB, 20 requests +\d[\d.]* +\d[\d.]* /, out)
    assert_match(/^heap slots used, cold +[\d,]+ +[\d,]+ /, out)
    assert_includes @said, "round 5 of 5"
    assert_empty left(a) + left(b)
  end

  def test_each_figure_as_json
    dir = app("config.ru" => QUICKLY)
    found = JSON.parse(compare(*QUICK, "--json", "-q", "--path", "/a,/b", dir, dir))
    assert_equal "", @said
    assert_equal %w[/a /b], found["pages"].keys
    assert_match(/the same/, found["remarks"].join)
    found["pages"].each_value do |page|
      page["figures"].each_value do |figures|
        assert_equal [5, 0, 2], [figures["rounds"].size, *figures.values_at("wrong", "bytes")]
        %w[rate p50 p99 cpu_ms switches].each { |name| assert_operator figures[name], :>, 0, name }
        assert figures["system_calls"] || found["not_known"]["system_calls"]
      end
      assert_equal %w[rate p50 p99 cpu_ms switches], page["ratios"].keys
    end
    found["sides"].each_value do |side|
      side["memory"].each_value { |memory| assert_equal %w[pss private_dirty slots_used slots_free], memory.keys.select { |name| memory[name].is_a?(Integer) } }
      assert_operator side.dig("memory", "cold", "private_dirty"), :>, 1 << 20
    end
  end

  def test_a_visitors_cookies_and_header_fields
    a, b = app("config.ru" => NOTES), app("config.ru" => NOTES)
    compare(*QUICK, "--cookies", "-H", "X-Forwarded-Proto: https", "-e", "staging", a, b)
    [a, b].each do |dir|
      seen = File.readlines(File.join(dir, "seen"), chomp: true)
      assert_equal ["/  https staging", "/ visit=#{File.basename(dir)} https staging"], seen.uniq, "the first request has none, and all others have this version's own"
    end
    File.delete(File.join(a, "seen"))
    compare(*QUICK, "-H", "X-Forwarded-Proto: https", a, b)
    assert_equal ["/  https production"], File.readlines(File.join(a, "seen"), chomp: true).uniq
  end

  def test_a_version_that_does_not_start
    a, b = app("config.ru" => QUICKLY), app("config.ru" => "raise 'no such setting'\n")
    assert_equal "", compare(*QUICK, a, b, status: 1)
    assert_match(/paceline: B does not start: #{b}$/, @said)
    assert_includes @said, "no such setting"
    assert_empty left(a) + left(b)
  end

  def test_a_page_that_is_not_there
    a, b = app("config.ru" => QUICKLY), app("config.ru" => "run ->(_) { [404, {}, ['no']] }\n")
    compare(*QUICK, a, b, status: 1)
    assert_includes @said, "B answers GET / with 404 Not Found"
    redirecting = app("config.ru" => "run ->(_) { [301, { 'location' => 'https://app.test/' }, []] }\n")
    compare(*QUICK, a, redirecting, status: 1)
    assert_includes @said, %(add -H "X-Forwarded-Proto: https")
    files = app("index.html" => "<p>no application")
    compare(*QUICK, a, files, status: 1)
    assert_includes @said, "B is no Ruby application: #{files}"
  end

  def test_ctrl_c_stops_both
    assert_equal [130, "interrupted; both versions are stopped"], ended_by(:INT) { |status, said| [status.exitstatus, said[/interrupted.*/]] }
  end

  def test_nothing_is_left_of_a_run_that_is_killed
    assert_equal 9, ended_by(:KILL) { |status| status.termsig }
  end

  # Ends a long run by SIGNAL when both versions are under load, and yields its status and what it said.
  def ended_by(signal)
    a, b = app("config.ru" => QUICKLY), app("config.ru" => QUICKLY)
    _, _, said, waiting = @streams = Open3.popen3(@env, BIN, "compare", *QUICK, "--time", "600", a, b)
    text = +""
    text << Timeout.timeout(PATIENCE) { said.readpartial(4096) } until text.include?("round 1")
    refute_empty left(a)
    refute_empty left(b)
    Process.kill(signal, waiting.pid)
    status = Timeout.timeout(PATIENCE) { waiting.value }
    eventually("both versions are gone") { (left(a) + left(b)).empty? }
    yield status, text << said.read
  ensure
    @streams.take(3).each(&:close)
  end

  def test_mistakes
    dir = app("config.ru" => QUICKLY)
    { [dir] => "DIR_A and DIR_B", [dir, dir, dir] => "DIR_A and DIR_B", [dir, "#{dir}/none"] => "no such directory", ["--rounds", "4", dir, dir] => "5 to 100",
      ["--path", "beers", dir, dir] => "a path begins with /", ["-H", "nothing", dir, dir] => "write NAME: VALUE", ["--fast", dir, dir] => "--fast" }.each do |arguments, sentence|
      assert_equal "", compare(*arguments, status: 64)
      assert_includes @said, sentence
    end
    assert_match(/Exit status: 0 measured, 1 /, compare("--help"))
  end

  # The file of a folder says which Ruby runs it; flags behind -- are the servers'.
  def test_two_rubies_of_one_folder
    dir = app("config.ru" => "run ->(_) { [200, {}, [ENV['THE_RUBY'].to_s]] }\n", "by-hand" => "#!/bin/sh\nTHE_RUBY=by-hand exec ruby \"$@\"\n")
    File.chmod(0o755, File.join(dir, "by-hand"))
    File.write(File.join(dir, "paceline.toml"), %(ruby = "./by-hand"\n))
    found = JSON.parse(compare(*QUICK, "--json", "--ruby-a", "ruby", dir, dir, "--", "--yjit", "off"))
    assert_equal [0, 7], found["pages"]["/"]["figures"].values.map { |figures| figures["bytes"] }
    compare(*QUICK, dir, dir, "--", "--no-such-flag", status: 1)
    assert_includes @said, "--no-such-flag"
  end
end
