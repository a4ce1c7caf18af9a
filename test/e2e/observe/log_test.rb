# The server's log: as JSON, rotated by size and on HUP, and its last lines from `paceline log`.
require_relative "../support/scenario"
require "json"

class LogTest < Minitest::Test
  include Scenario

  APP = <<~'RUBY'
    $stdout.puts "\e[32mgreen\e[0m and \"quoted\""
    run ->(env) { $stderr.puts env["QUERY_STRING"] unless env["QUERY_STRING"].empty?; [200, {}, ["fine"]] }
  RUBY

  def test_each_line_is_one_object
    dir = app("config.ru" => APP, "paceline.toml" => %(log_format = "json"\naccess_log = "tmp/access.log"))
    FileUtils.mkdir_p(File.join(dir, "tmp"))
    server = serve(dir)
    server.get("/?hello")
    server.wait_for(/"text":"hello"/)
    write(dir, "config.ru" => "raise 'broken'")
    server.signal(:USR1)
    server.wait_for(/the old one goes on serving/)
    server.stop
    lines = server.output.lines.map { |line| JSON.parse(line) }
    name = File.basename(dir)

    assert_equal %w[event text time], lines.find { |line| line["event"] == "listening" }.keys.sort
    hello = lines.find { |line| line["text"] == "hello" }
    assert_equal ["output", name, "#{name}.1"], hello.values_at("event", "site", "from")
    assert_includes lines.map { |line| line["text"] }, %(green and "quoted")
    report = lines.find { |line| line["event"] == "generation-failed" }
    assert_equal name, report["site"]
    assert_includes report["text"], "#{name} did not start\n"
    assert_match(/\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d\z/, report["time"])
    assert_equal lines.map { |line| line["time"] }.sort, lines.map { |line| line["time"] }
    access = JSON.parse(File.read(File.join(dir, "tmp/access.log")))
    assert_equal ["request", 200], access.values_at("event", "status")
  end

  def test_files_are_rotated_by_size_and_no_line_is_lost
    dir = app("config.ru" => APP, "paceline.toml" => %(log_max_size = "4KB"\nlog_keep = 100\naccess_log = "log/access.log"), "log/.keep" => "")
    server = serve(dir)
    asked = 60
    logged = -> { Dir[File.join(dir, "log/{access.log*,moved}")].flat_map { |path| File.read(path).scan(/x\/(\d+) HTTP/).flatten }.map(&:to_i) }
    asked.times do |number|
      server.get("/#{"x" * 300}/#{number}")
      # Someone else's rotation in the midst of it.
      next unless number == 30
      moved = -> { File.exist?(File.join(dir, "log/access.log")) }
      # A line that is written between the rename and the signal would make the moved file longer.
      eventually("all lines in the files") { moved.() && logged.call.size == 31 }
      File.rename(File.join(dir, "log/access.log"), File.join(dir, "log/moved"))
      server.signal(:HUP)
      eventually("the file to be opened anew") { moved.() }
    end
    server.stop
    files = Dir[File.join(dir, "log/{access.log*,moved}")]

    assert_equal (0...asked).to_a, logged.call.sort
    assert_operator files.size, :>=, 6
    assert_empty files.select { |path| File.size(path) > 4096 }
    assert_includes files, File.join(dir, "log/access.log.1")
  end

  def test_a_folder_that_is_not_the_servers_is_told_once
    skip "root may write everywhere but in a file's place" unless Process.uid.zero?
    dir = app("config.ru" => APP, "paceline.toml" => %(log_max_size = "4KB"\nlog_keep = 1\naccess_log = "log/access.log"), "log/access.log.1/in_the_way" => "")
    server = serve(dir)
    20.times { server.get("/#{"x" * 300}") }

    server.wait_for(/\* \S+\/log\/access\.log can't be rotated: .*; it goes on growing$/)
    server.stop
    assert_equal 1, server.output.scan("can't be rotated").size
    assert_equal 20, File.readlines(File.join(dir, "log/access.log")).size
  end

  def test_the_last_lines_of_the_running_server
    server = serve(app("config.ru" => APP))
    server.get("/?first")
    server.wait_for(/\] first$/)
    name = File.basename(server.dir)

    assert_match(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  listening          Listening on http:/, log(server))
    assert_match(/^[-0-9]+ [:0-9]+  output             \[#{name}\.1\] first\n\z/, log(server, "-n", "1"))
    assert_equal ["output"], log(server, "--event", "output").lines.map { |line| line.split[2] }.uniq
    refute_includes log(server, "--site", name), "Listening"
    assert_equal %w[listening], log(server, "--event", "listening", "--json").lines.map { |line| JSON.parse(line)["event"] }
    assert_match(/unknown event "nonsense"; the events are listening, /, log(server, "--event", "nonsense", ends: 1))
  end

  def test_following
    server = serve(app("config.ru" => APP))
    IO.popen([BIN, "log", "--follow", "--event", "output", "--event", "stopped"], chdir: server.dir) do |follower|
      Timeout.timeout(PATIENCE) do
        assert_match(/green and "quoted"$/, follower.gets)
        server.get("/?now")
        assert_match(/\] now$/, follower.gets)
      end
      Process.kill(:TERM, follower.pid)
    end
  end

  def test_what_an_exception_says_commands_no_terminal
    odd = "\\e]0;title\\a\\e[2J\\u009b31m"
    dir = app("config.ru" => "run ->(env) { warn \"said #{odd}\"; raise \"raised #{odd} \#{env['QUERY_STRING']}\" }\n")
    server = serve(dir)
    assert_equal "500", server.get("/?x").code
    server.wait_for(/raised/)
    server.wait_for(/said/)
    refute_match(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/, server.output.gsub(/\e\[[\d;]*m/, ""))
  end

  private

  def log(server, *arguments, ends: 0)
    output = IO.popen([BIN, "log", *arguments], chdir: server.dir, err: %i[child out], &:read)
    assert_equal ends, $?.exitstatus, output
    output
  end
end
