# The units that `paceline systemd` writes: systemd takes them, and they say what was asked for.
require_relative "../support/control"
require_relative "../support/scenario"

class SystemdTest < Minitest::Test
  include Scenario
  include Control

  def unit(dir, *arguments)
    out, status = command(dir, "systemd", *arguments)
    assert_equal 0, status, out
    out
  end

  # What systemd itself says of a unit.
  def verify(dir, name, text)
    path = File.join(dir, name)
    File.write(path, text)
    return if `which systemd-analyze`.empty?
    complaints, = Open3.capture2e("systemd-analyze", "verify", path)
    assert_empty(complaints.lines.grep(/#{Regexp.escape(name)}/))
  end

  def test_the_service
    dir = app("config.ru" => "run ->(env) { [200, {}, []] }", "paceline.toml" => "shutdown_timeout = \"40s\"\nshutdown_delay = \"5s\"\n")
    text = unit(dir, "--user", "www-data", "-p", "80", "-w", "2", "--tag", "my shop")
    settings = text.lines(chomp: true).grep(/=/).grep_v(/\A#/).map { |line| line.split("=", 2) }
    one = settings.to_h
    assert_equal "#{File.realpath(BIN)} -p 80 -w 2 --tag \"my shop\"", one["ExecStart"].sub(BIN, File.realpath(BIN))
    assert_equal [dir, "www-data", "notify", "all", "mixed", "always", "/bin/kill -USR1 $MAINPID", "CAP_NET_BIND_SERVICE"],
      one.values_at("WorkingDirectory", "User", "Type", "NotifyAccess", "KillMode", "Restart", "ExecReload", "AmbientCapabilities")
    assert_operator Integer(one["TimeoutStopSec"]), :>, 45
    assert_includes settings, ["Environment", "RACK_ENV=production RAILS_ENV=production LANG=C.UTF-8"]
    verify(dir, "shop.service", text)
    refute_match(/AmbientCapabilities/, unit(dir, "-p", "3000", "--user", "www-data"))
  end

  def test_the_sockets
    dir = app("config.ru" => "run ->(env) { [200, {}, []] }")
    text = unit(dir, "--socket", "-b", "tcp://127.0.0.1:3000", "-b", "unix:///run/shop/web.sock?umask=0117")
    assert_match(/^ListenStream=127\.0\.0\.1:3000$/, text)
    assert_match(/^ListenStream=\/run\/shop\/web\.sock\nSocketMode=0660$/, text)
    verify(dir, "shop.service", unit(dir))
    verify(dir, "shop.socket", text)
    out, status = command(dir, "systemd", "--socket", "-b", "tcp://127.0.0.1:0")
    assert_equal [2, "paceline: a systemd socket needs a port number: set bind or port\n"], [status, out]
  end
end
