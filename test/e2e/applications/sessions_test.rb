# Sessions of a Rails application in a file and in Redis, as curl sees them: on Paceline, and on Puma. The application: gem/test/session/support/rails_app.rb.
require_relative "../support/scenario"
require "open3"
require "digest"

class SessionsTest < Minitest::Test
  include Scenario

  HERE = %w[railties actionpack].all? { |name| Gem::Specification.find_all_by_name(name).any? }
  CONFIG = <<~RUBY
    $LOAD_PATH.unshift #{File.join(CHECKOUT, "gem/lib").inspect}
    require #{File.join(CHECKOUT, "gem/test/session/support/rails_app").inspect}
    run SessionApp
  RUBY

  def setup
    skip "Rails is not here" unless HERE
    @dir = app("config.ru" => CONFIG)
  end

  def teardown
    Array(@spawned).each do |pid|
      Process.kill(:KILL, pid)
      Process.wait(pid)
    end
    super
  end

  # The application on `server`; two processes of two threads each.
  def on(server, store: "storage/sessions.paceline", **settings)
    env = { "FOLDER" => @dir, "STORE" => store, "RAILS_ENV" => "production" }.merge(settings.to_h { |name, value| [name.to_s.upcase, value.to_s] })
    if server == :paceline
      @server = serve(@dir, "-w", "2", "-t", "2", env: env)
      @url = "http://127.0.0.1:#{@server.port}"
    else
      skip "Puma is not here" unless system("puma --version > /dev/null 2>&1")
      @url = "http://127.0.0.1:#{started(env, "puma", "-w", "2", "-t", "2:2", "--preload", "-b", "tcp://127.0.0.1:0", "config.ru", ready: /Listening on http:\/\/127.0.0.1:(\d+)/, all: /Worker 1 .*booted/)}"
    end
  end

  # Starts a program, and returns what `ready` matches in what it prints, when it has also printed `all`.
  def started(env, *command, ready:, all: ready)
    said, tell = IO.pipe
    (@spawned ||= []) << Process.spawn(env, *command, chdir: @dir, out: tell, err: tell, in: File::NULL)
    tell.close
    printed = +""
    until printed.match?(ready) && printed.match?(all)
      printed << (said.gets || flunk("#{command.first} ended: #{printed}"))
    end
    Thread.new { said.each_line {} }
    printed[ready, 1]
  end

  def redis(socket = File.join(@dir, "redis.sock"))
    skip "there is no redis-server, or no gem redis" unless system("command -v redis-server > /dev/null") && Gem::Specification.find_all_by_name("redis").any?
    started({}, "redis-server", "--port", "0", "--unixsocket", socket, "--save", "", ready: /ready to accept/i)
    "unix://#{socket}"
  end

  # What a visitor with a jar of cookies gets: status and body.
  def visit(path, jar: "jar", keep: true)
    jar = File.join(@dir, jar)
    out, error, status = Open3.capture3("curl", "-sS", "-m", PATIENCE.to_s, "-b", jar, *(["-c", jar] if keep), "-w", "\n%{http_code}", "#{@url}#{path}")
    assert status.success?, error
    body, _, code = out.rpartition("\n")
    [code.to_i, body]
  end

  def id(jar = "jar") = File.read(File.join(@dir, jar))[/_shop\t(\h+)/, 1]

  def file = File.join(@dir, "storage/sessions.paceline")

  def a_visitor
    assert_equal [200, "[]"], visit("/show")
    refute_includes File.read(File.join(@dir, "jar")), "_shop"
    1.upto(6) { |count| assert_equal [200, count.to_s], visit("/count") }
    first = id
    # A browser that loads several things at once: each changes what is its own.
    Array.new(8) { |number| Thread.new { visit("/set?name=n#{number}&value=v#{number}", keep: false) } }.each(&:join)
    assert_equal [200, [["count", 6], *Array.new(8) { |number| ["n#{number}", "v#{number}"] }].inspect], visit("/show")
    assert_equal 200, visit("/login?user=ana")[0]
    second = id
    refute_equal first, second
    assert_equal [200, '[["user", "ana"]]'], visit("/show")
    # Who has the old id has nothing, and who brings one of his own gets another.
    %W[#{first} #{"f" * 32}].each do |known|
      File.write(File.join(@dir, "thief"), "127.0.0.1\tFALSE\t/\tFALSE\t0\t_shop\t#{known}\n")
      assert_equal [200, "[]"], visit("/show", jar: "thief")
      visit("/count", jar: "thief")
      refute_equal known, id("thief")
    end
    assert_equal [200, '"Prost"'], (visit("/flash_notice") && visit("/flashed"))
    assert_equal [200, "nil"], visit("/flashed")
    visit("/logout")
    assert_equal [200, "[]"], visit("/show")
    [first, second]
  end

  %i[paceline puma].each do |server|
    define_method("test_a_visitor_of_#{server}_with_a_file") do
      on(server)
      ids = a_visitor
      bytes = File.binread(file)
      ids.each { |id| refute_includes bytes, id }
    end

    define_method("test_a_visitor_of_#{server}_with_redis") do
      on(server, store: redis)
      a_visitor
    end

    define_method("test_who_only_reads_writes_nothing_on_#{server}") do
      on(server, idle: 7200, expire_after: 86_400)
      visit("/count")
      before = File.binread(file)
      Array.new(4) { Thread.new { 10.times { assert_equal [200, '[["count", 1]]'], visit("/show", keep: false) } } }.each(&:join)
      assert_equal before, File.binread(file)
    end
  end

  def test_what_fails_is_told
    on(:paceline, max_size: 5000)
    visit("/count")
    assert_equal 500, visit("/large?bytes=6000")[0]
    assert_match(/Paceline::Session::TooLarge \(the session has 60\d\d bytes, more than max_size = 5000; the largest: "report" 60\d\d/, File.read(File.join(@dir, "rails.log")))
    assert_equal [200, "2"], visit("/count")
  end

  def test_a_damaged_file
    on(:paceline)
    visit("/count")
    @server.stop
    bytes = File.binread(file)
    File.binwrite(file, bytes[0, bytes.size / 2])
    on(:paceline)
    assert_equal 500, visit("/count")[0]
    assert_match(/Paceline::Session::Unavailable .*sessions\.paceline/, File.read(File.join(@dir, "rails.log")))
    # As docs/sessions.md has it, without a restart.
    File.unlink(file, "#{file}-lock")
    assert_equal [200, "1"], visit("/count")
  end

  def test_redis_goes_and_comes_back
    socket = File.join(@dir, "redis.sock")
    on(:paceline, store: redis(socket))
    assert_equal [200, "1"], visit("/count")
    Process.kill(:KILL, @spawned.last)
    Process.wait(@spawned.pop)
    assert_equal 500, visit("/count")[0]
    assert_match(/Paceline::Session::Unavailable \(sessions in unix:/, File.read(File.join(@dir, "rails.log")))
    redis(socket)
    assert_equal [200, "1"], visit("/count")
  end

  # Each count that a visitor was told of is there after the worker that told it is gone; and after a restart.
  def test_workers_that_are_killed_lose_nothing
    on(:paceline)
    visit("/count")
    6.times do
      known = visit("/count")[1].to_i
      @server.workers.each { |pid| Process.kill(:KILL, pid) }
      assert_equal [200, (known + 1).to_s], eventually("an answer") { (answer = visit("/count"))[0] == 200 && answer }
    end
    known = visit("/count")[1].to_i
    @server.stop
    on(:paceline)
    assert_equal [200, (known + 1).to_s], visit("/count")
  end
end
