# `paceline restart --canary`: the new generation has a share of the requests, is compared, and goes on or is rolled back.
require_relative "../support/scenario"
require_relative "../support/control"

class CanaryTest < Minitest::Test
  include Scenario
  include Control

  # Answers with its version; the new one may do worse, as the file `worse` says.
  APP = <<~'RUBY'
    version = File.read("version")
    worse = version == "new" && File.exist?("worse") ? File.read("worse") : ""
    run ->(env) do
      exit!(3) if worse == "exit"
      sleep 0.05 if worse == "slow"
      [worse == "error" ? 500 : 200, { "cache-control" => "no-store" }, [version]]
    end
  RUBY

  def shop(worse = nil, *arguments)
    dir = app({ "config.ru" => APP, "version" => "old", "worse" => worse }.compact)
    server = serve(dir, "-e", "production", "-w", "2", "-t", "2", "--ready-path", "off", *arguments)
    write(dir, "version" => "new")
    [dir, server]
  end

  # The canary is begun; asks until the command has ended, and returns what it said, its status and the answers.
  def tried(dir, server, *arguments)
    command = Thread.new { command(dir, "restart", "--wait", *arguments) }
    server.wait_for(/generation 2 has /)
    answers = []
    Net::HTTP.start("127.0.0.1", server.port) do |http|
      while command.alive?
        answer = http.get("/")
        answers << "#{answer.code} #{answer.body}"
      end
    end
    [*command.value, answers]
  end

  def test_its_share_is_exact_and_it_can_be_taken_back_by_hand
    dir, server = shop
    waiting = Thread.new { command(dir, "restart", "--wait", "--canary", "12.5%", "--for", "10m") }
    server.wait_for(/generation 2 has 12.5 % of the requests for 600 s and 20 requests at least$/)
    roles = -> { generations(server)["generations"].map { |one| [one["role"], one["number"]] } }
    assert_equal [["current", 1], ["canary", 2]], roles.call
    answers = Array.new(80) { server.get("/").body }
    assert_equal({ "old" => 70, "new" => 10 }, answers.tally)

    assert_equal [0, "#{File.basename(dir)}: the canary, generation 2, is rolled back\n"], command(dir, "rollback", "--wait").reverse
    out, status = waiting.value
    assert_equal [1, "#{File.basename(dir)}: rolled back: paceline rollback\n"], [status, out]
    assert_equal ["old"], Array.new(30) { server.get("/").body }.uniq
    eventually("the canary to go") { roles.call == [["current", 1]] }
  end

  # Sixteen visitors want the four threads of the old generation without a pause, while the canary's four have time.
  def test_its_share_is_no_larger_where_more_visitors_come_than_threads_are_there
    dir, server = shop
    waiting = Thread.new { command(dir, "restart", "--wait", "--canary", "10%", "--for", "10m") }
    server.wait_for(/generation 2 has 10 % of the requests/)
    visit = ->(visitor) { Net::HTTP.start("127.0.0.1", server.port) { |http| Array.new(50) { |nth| http.get("/#{visitor}/#{nth}").body } } }
    answers = Array.new(16) { |visitor| Thread.new(visitor, &visit) }.flat_map(&:value)
    assert_equal [800, %w[new old]], [answers.size, answers.uniq.sort]
    assert_in_delta 80, answers.count("new"), 8
    assert_equal 0, command(dir, "rollback", "--wait").last
    waiting.join
  end

  def test_one_that_does_well_takes_over
    dir, server = shop
    out, status, answers = tried(dir, server, "--canary", "20%", "--for", "1s")
    assert_equal 0, status, out
    assert_match(/ is ready: .*; as a canary 0 of \d+ requests failed, of the old generation's 0 of \d+; median .* on the same routes, before .*; [\d.]+ MB a worker, before [\d.]+ MB$/, out)
    assert_equal ["200 new", "200 old"], answers.uniq.sort
    assert_equal ["new"], Array.new(30) { server.get("/").body }.uniq
  end

  { "error" => /\A\S+: rolled back: \d+ of \d+ requests failed \(100\.0 %\), of the old generation's 0 of \d+ \(0\.0 %\)\n\z/,
    "slow" => /\A\S+: rolled back: median [\d.]+ m?s, p95 .* on the same routes, before .*\n\z/ }.each do |worse, told|
    define_method("test_one_that_is_worse_#{worse}_is_taken_back_and_that_says_why") do
      dir, server = shop(worse)
      out, status, = tried(dir, server, "--canary", "20%", "--for", worse == "slow" ? "1s" : "10m")
      assert_equal 1, status
      assert_match(told, out)
      server.wait_for(/the canary, generation 2, is rolled back: /)
      incident = control(server, "/incidents")["incidents"].find { |one| one["kind"] == "rolled-back" }
      assert_match(/\Athe canary of \S+, generation 2, was rolled back: #{worse == "slow" ? "median" : '\d+ of \d+ requests failed'}/, incident["what"])
      assert_equal ["200 old"], Array.new(30) { server.get("/") }.map { |answer| "#{answer.code} #{answer.body}" }.uniq
    end
  end

  def test_a_worker_that_dies_ends_it_at_once_and_nobody_notices
    dir, server = shop("exit")
    out, status, answers = tried(dir, server, "--canary", "20%", "--for", "10m")
    assert_equal 1, status
    assert_match(/rolled back: its worker \d \(pid \d+\) exited with status 3/, out)
    assert_equal ["200 old"], answers.uniq
    assert_equal ["old"], Array.new(30) { server.get("/").body }.uniq
    eventually("the canary to go") { server.descendants.size == 3 }
  end

  def test_another_restart_takes_its_place
    dir, server = shop
    waiting = Thread.new { command(dir, "restart", "--wait", "--canary", "50%", "--for", "10m") }
    server.wait_for(/generation 2 has /)
    write(dir, "version" => "third")
    assert_equal 0, command(dir, "restart", "--wait").last
    assert_equal [1, true], waiting.value.reverse.then { |status, out| [status, out.include?("another restart was asked for")] }
    assert_equal ["third"], Array.new(30) { server.get("/").body }.uniq
  end
end
