# Applications that do what they should not with memory, in a control group of 512 MB without swap: the kernel never has to kill
# anything, visitors get their answers, and what the server says of its memory is what /proc/PID/smaps says.
require_relative "../support/control"
require_relative "../support/memory_cgroup"
require_relative "../support/scenario"

class CgroupTest < Minitest::Test
  include Scenario
  include Control

  MB = 1024 * 1024
  LIMIT = 512 * MB
  SMAPS = File.join(CHECKOUT, "test/e2e/support/smaps.awk")

  # Keeps a quarter of a megabyte of each request.
  LEAKING = <<~'RUBY'.freeze
    $kept = []
    run ->(env) do
      $kept << ("x" * (256 << 10)) if env["PATH_INFO"] == "/leak"
      sleep 0.01
      [200, {}, [Process.pid.to_s]]
    end
  RUBY

  # Takes memory for one request until it has all there is.
  BLOATING = <<~'RUBY'.freeze
    run ->(env) do
      pieces = []
      600.times { pieces << ("x" * (1 << 20)) && sleep(0.02) } if env["PATH_INFO"] == "/bloat"
      [200, {}, [pieces.size.to_s]]
    end
  RUBY

  # Shares nothing of its 60 MB: each worker writes to all of it; and has threads and a connection from before the fork.
  HOSTILE = <<~'RUBY'.freeze
    require "socket"
    $data = Array.new(60) { "x" * (1 << 20) }
    Thread.new { loop { sleep 1 } }
    $pair = UNIXSocket.pair
    $written = false
    run ->(env) do
      $written ||= $data.each { |piece| piece.tr!("x", "y") } && true
      sleep 0.05
      [200, {}, [Process.pid.to_s]]
    end
  RUBY

  def setup
    skip "no memory control group can be made here" unless (@group = MemoryCgroup.make(LIMIT))
  end

  def teardown
    super
    return unless @group
    eventually("the control group to be empty") { @group.remove || true rescue false }
  end

  def serve_within(files, *arguments) = serve(app(files), "-e", "production", "-q", *arguments, within: @group.command)

  # So many visitors ask for so many seconds, and until there are `least` answers; how often which status was the answer.
  def ask(server, path, visitors, seconds, least: 0)
    limit = Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds
    threads = Array.new(visitors) do
      Thread.new do
        answers = Hash.new(0)
        Net::HTTP.start("127.0.0.1", server.port, read_timeout: PATIENCE) do |http|
          answers[http.get(path).code] += 1 while Process.clock_gettime(Process::CLOCK_MONOTONIC) < limit || answers.values.sum < least / visitors
        end
        answers
      end
    end
    threads.map(&:value).reduce { |all, one| all.merge(one) { |_, a, b| a + b } }
  end

  # What the server says beside what an awk script adds up of every mapping; a worker that has just been forked takes a moment to come to rest.
  def assert_accounted(server)
    wrong = nil
    eventually { (wrong = disagreements(server)).empty? }
  rescue Minitest::Assertion
    flunk "the account disagrees with smaps: #{wrong.inspect}"
  end

  def disagreements(server)
    out, status = command(server.dir, "memory", "--json")
    assert_equal 0, status, out
    account = JSON.parse(out)
    told = [account["front"], *account["sites"].values.flat_map { |site| site["generations"] }.flat_map { |one| [one["preloader"], *one["workers"]] }]
    return ["processes"] unless told.map { |one| one["pid"] }.sort == [server.pid, *server.descendants].sort
    told.flat_map do |one|
      names = %w[rss private_dirty swap pss]
      real = IO.popen(["awk", "-f", SMAPS, "/proc/#{one["pid"]}/smaps"], &:read).split.map { |kb| kb.to_i * 1024 }
      # The command that asks shares the program's pages with the front, and is gone now.
      names.pop if one["pid"] == server.pid
      names.zip(real).reject { |name, bytes| (bytes - one[name]).abs <= [bytes * 0.05, MB].max }
        .map { |name, bytes| "#{name} of #{server.title(one["pid"])}: #{one[name]} told, #{bytes} found" }
    end
  end

  def assert_never_short
    assert_equal 0, @group.killed, "the kernel killed for want of memory; at most #{@group.most / MB} MB were in use"
  end

  def test_a_leaking_application_is_held
    server = serve_within({ "config.ru" => LEAKING }, "-w", "3", "-t", "2", "--worker-memory", "60MB", "--worker-memory-hard", "110MB")
    first = server.workers
    answers = ask(server, "/leak", 6, 10, least: 2400)
    assert_equal ["200"], answers.keys, answers.inspect
    assert_operator answers["200"] * 256 * 1024, :>, LIMIT, "too little was leaked to show anything"
    assert_never_short
    refute_equal first, server.workers
    eventually("three workers again") { server.workers.size == 3 && control(server, "/memory")["sites"].values.first["generations"].flat_map { |one| one["workers"] }.size == 3 }
    assert_accounted server
  end

  def test_a_bloating_request_is_ended_and_others_are_answered
    server = serve_within({ "config.ru" => BLOATING }, "-w", "2", "-t", "2", "--worker-memory-hard", "120MB")
    bloat = Thread.new { server.get("/bloat").code }
    answers = Hash.new(0)
    while bloat.alive?
      answers[server.get("/").code] += 1
    end
    assert_equal "502", bloat.value
    assert_equal ["200"], answers.keys, answers.inspect
    assert_never_short
    eventually("two workers again") { server.workers.size == 2 }
    assert_accounted server
  end

  def test_a_pool_of_workers_that_share_nothing_does_not_grow_beyond_the_limit
    server = serve_within({ "config.ru" => HOSTILE }, "-w", "1:8", "-t", "1")
    answers = ask(server, "/", 25, 20)
    assert_equal ["200"], answers.keys, answers.inspect
    assert_never_short
    workers = server.workers.size
    assert_includes 2..7, workers
    assert_match(/no more workers are started\. .* and this control group has [\d.]+ MB left of 512 MB: set workers = \d/, server.output)
    assert_accounted server
  end
end
