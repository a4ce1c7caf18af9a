# `paceline check` tells whether configuration and application are fine; nothing is served.
require "open3"
require_relative "../support/scenario"

class CheckTest < Minitest::Test
  include Scenario

  HELLO = "run ->(env) { [200, {}, ['hello']] }\n".freeze

  def check(dir, *arguments)
    env = { "PACELINE_GEM_DIR" => File.join(CHECKOUT, "gem"), "RACK_ENV" => nil, "RAILS_ENV" => nil, "PORT" => nil }.merge(AS_ROOT)
    out, status = Open3.capture2e(env, BIN, "check", *arguments, chdir: dir)
    [out, status.exitstatus]
  end

  def test_all_is_well
    dir = app("config.ru" => "File.write('booted', Process.pid.to_s)\nputs 'not for the terminal'\n#{HELLO}")
    holder = TCPServer.new("127.0.0.1", 0) # no port is opened: a taken one is no problem
    out, status = check(dir, "-p", holder.local_address.ip_port.to_s)

    assert_equal 0, status, out
    assert_equal ["listen  http://127.0.0.1:#{holder.local_address.ip_port}",
      "site    #{File.basename(dir)}: Rack in #{dir}, development, 1 x 3 threads, for every host", "no problems found"], out.lines(chomp: true)
    refute_path_exists "/proc/#{File.read(File.join(dir, "booted"))}"
  end

  def test_an_app_that_does_not_start
    dir = app("config.ru" => "puts 'nearly there'\nraise 'broken'\n")
    out, status = check(dir)

    assert_equal 1, status
    assert_match(/^  ✗ boot .* failed here$/, out)
    ["RuntimeError: broken", "at config.ru:2", "nearly there", "1 problem"].each { |said| assert_includes out, said }
  end

  def test_a_boot_hook_that_raises
    out, status = check(app("config.ru" => HELLO, "config/puma.rb" => "on_worker_boot { raise 'no cache' }\n"))
    assert_equal 1, status
    assert_match(/^  ✗ ready .* failed here$/, out)
    assert_includes out, "RuntimeError: no cache"
  end

  def test_every_site
    dir = app("sites/blog/config.ru" => HELLO, "sites/shop/config.ru" => "raise 'broken'\n", "sites/manual/index.html" => "plain",
      "sites/wrong/paceline.toml" => "prot = 1\n")
    out, status = check(dir, "--sites", "sites")
    assert_equal 1, status
    assert_match(/^site    blog: Rack in .*for blog blog\.localhost blog\.test$/, out)
    assert_match(/^site    manual: Files in /, out)
    assert_match(/^WRONG   site shop:\nshop did not start$/, out)
    assert_match(/^WRONG   site wrong: .*unknown key "prot"/, out)
    assert_match(/^2 problems$/, out)
  end

  def test_a_configuration_that_is_wrong
    out, status = check(app("config.ru" => HELLO, "paceline.toml" => "prot = 3000\n"))
    assert_equal 2, status
    assert_match(/\Apaceline: paceline\.toml:1:1: unknown key "prot"/, out)
  end
end
