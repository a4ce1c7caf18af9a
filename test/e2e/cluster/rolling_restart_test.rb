# `paceline restart --rolling`: three servers of a cluster that are restarted one after the other, by a real Valkey or Redis: one that fails,
# Ctrl-C, and a Valkey that is away in the middle.
require "open3"
require_relative "../support/members"

class RollingRestartTest < Minitest::Test
  include Scenario
  include Control
  include Members

  def teardown
    @commands&.each { |command| command.kill }
    super
  end

  def rolling(front, *arguments) = command(front.dir, "restart", "--rolling", *arguments)

  # The command, while it runs.
  class Command
    attr_reader :pid

    def initialize(dir, *arguments)
      @out = File.join(dir, "command-output")
      clean = { "PACELINE_CONTROL" => nil, "RACK_ENV" => nil, "RAILS_ENV" => nil, "PORT" => nil }
      @pid = Process.spawn(clean.merge(Scenario::AS_ROOT), Scenario::BIN, *arguments, chdir: dir, in: File::NULL, %i[out err] => [@out, "w"])
    end

    def output = File.read(@out)

    # Its exit status.
    def end
      Timeout.timeout(Scenario::PATIENCE) { Process.wait(pid) }
      @ended = true
      $?.exitstatus
    end

    def kill
      return if @ended
      Process.kill(:KILL, pid)
      self.end
    end
  end

  def begin_rolling(front, *arguments)
    command = Command.new(front.dir, "restart", "--rolling", "--watch", "0s", *arguments)
    (@commands ||= []) << command
    command
  end

  # The generation of each server, as another one shows it.
  def shown(front) = @fronts.map { |one| member(front, one)["status"]["generation"] }

  # Of each server the generation that serves.
  def numbers = @fronts.map { |front| generations(front)["generations"].find { |generation| generation["role"] == "current" }["number"] }

  # The first server boots until the test opens its barrier.
  def hold_the_first
    gate = barrier(@fronts[0].dir, "gate")
    deploy("slow", "new", "new")
    command = begin_rolling(@fronts[0])
    eventually("the first to restart") { member(@fronts[1], @fronts[0])["restart"]&.fetch("state") == "restarting" && command.output.include?("restarting") }
    [gate, command]
  end

  def test_all_are_restarted_one_after_the_other_without_losing_a_request
    fronts(3)
    stop = false
    visitors = @fronts.map do |front|
      Thread.new do
        answers = []
        answers << front.get("/").then { |answer| "#{answer.code} #{answer.body}" } until stop
        answers
      end
    end
    deploy("new")
    out, status = rolling(@fronts[1], "--watch", "500ms")
    stop = true
    answers = visitors.flat_map(&:value)
    assert_equal 0, status, out
    assert_equal %w[new] * 3, versions
    lines = out.lines(chomp: true)
    assert_equal ["shop: 3 servers, one after the other", "all 3 servers serve the new code"], [lines.first, lines.last]
    @fronts.each.with_index(1) do |front, number|
      began, ended = lines.grep(/\A#{number} of 3  \S+ \(pid #{front.pid}\): /)
      assert_match(/: restarting\z/, began)
      assert_match(/: generation 2 serves after \S+ s; 0 of \d+ answers failed in 500ms\z/, ended)
    end
    assert_equal ["200 new", "200 old"], answers.uniq.sort
  end

  def test_the_others_show_at_once_what_a_restart_has_changed
    fronts(2)
    first, second = @fronts
    assert_equal 0, command(second.dir, "restart", "--wait")[1]
    assert_equal [1, 2], shown(first)
    assert_equal 0, rolling(first, "--watch", "0s")[1]
    assert_equal [2, 3], shown(first)
    assert_equal [2, 3], shown(second)
  end

  def test_it_stops_at_the_first_that_fails
    fronts(3)
    { "broken" => /did not start .*the cellar is empty/, "unready" => /GET \/up was answered 503/ }.each do |version, why|
      deploy("new", version, "new")
      out, status = rolling(@fronts[2], "--watch", "0s")
      first, second, third = @fronts.map { |front| "\\S+ \\(pid #{front.pid}\\)" }
      assert_equal 1, status, out
      assert_match(/^#{second}: .*#{why}/, out)
      assert_match(/^stopped: no further server is restarted\nnew code: #{first}\nfailed: #{second}\nold code: #{third}\n\z/, out)
      assert_equal %w[new old old], versions
      eventually("it to be shown") { command(@fronts[0].dir, "cluster")[0].match?(/pid #{@fronts[1].pid} .*its last --rolling restart failed/) }
    end
    json, status = rolling(@fronts[0], "--json", "--watch", "0s")
    told = JSON.parse(json)
    assert_equal [1, false, "failed", @fronts[1].pid], [status, told["done"], told["stopped"]["what"], told["stopped"]["pid"]]
    assert_equal [[@fronts[0].pid], [@fronts[2].pid]], %w[restarted not_restarted].map { |key| told[key].map { |server| server["pid"] } }
  end

  def test_it_stops_if_the_new_code_answers_worse
    fronts(2)
    deploy("failing", "new")
    first, second = @fronts
    stop = false
    visitor = Thread.new { first.get("/") until stop }
    out, status = rolling(second, "--watch", "1s")
    stop = true
    visitor.join
    assert_equal 1, status, out
    assert_match(/\(pid #{first.pid}\): generation 2 serves after \S+ s, but \d+ of \d+ answers of \S+ were 5xx in 1s, before 0\.0 %/, out)
    assert_equal %w[failing old], versions
  end

  def test_after_ctrl_c_no_further_server_is_restarted
    fronts(3)
    gate, command = hold_the_first
    Process.kill(:INT, command.pid)
    assert_equal 130, command.end
    assert_match(/^interrupted: no further server is restarted\nin progress: \S+ \(pid #{@fronts[0].pid}\); .*\nold code: .*#{@fronts[1].pid}.*#{@fronts[2].pid}/, command.output)
    gate.open
    eventually("the first to end what it has begun") { versions == %w[slow old old] }
    # Nobody holds the lease, and nobody else was told anything.
    deploy("newer")
    out, status = rolling(@fronts[2], "--watch", "0s")
    assert_equal [0, %w[newer] * 3, [3, 2, 2]], [status, versions, numbers], out
  end

  def test_a_command_that_is_killed_restarts_nothing_more
    fronts(2)
    gate, command = hold_the_first
    command.kill
    gate.open
    eventually("the first to end what it has begun") { versions == %w[slow old] }
    out, status = rolling(@fronts[1], "--watch", "0s")
    if status == 1
      assert_match(/\(pid #{@fronts[0].pid}\) restarts all servers already: nothing was restarted/, out)
    end
    assert_equal 0, eventually("the lease to end") { rolling(@fronts[1], "--watch", "0s", "--site", site(1)).then { |_, ended| ended if ended == 0 } }
  end

  def site(number) = File.basename(@fronts[number].dir)

  def test_two_at_once_are_refused
    fronts(2)
    gate, command = hold_the_first
    out, status = rolling(@fronts[1])
    assert_equal 1, status
    assert_match(/\A\S+ \S+ \(pid #{@fronts[0].pid}\) restarts all servers already: nothing was restarted/, out)
    gate.open
    assert_equal [0, %w[slow new]], [command.end, versions], command.output
  end

  # A lease lasts seconds. One that lasts for ever, or until no time, was written by another program.
  def test_a_lease_that_no_server_has_taken_keeps_nobody_waiting
    fronts(2)
    %w[999999999999999 many].each_with_index do |till, number|
      @valkey.cli("HSET", "{paceline:shop}:restart", "token", "nobody's", "until", till, "owner", "nobody")
      deploy("new #{number}")
      out, status = rolling(@fronts[0], "--watch", "0s")
      assert_equal 0, status, out
      assert_equal ["new #{number}"] * 2, versions
    end
  end

  def test_valkey_goes_in_the_middle
    fronts(3)
    gate, command = hold_the_first
    @valkey.kill
    assert_equal 1, command.end
    first, second, third = @fronts.map { |front| "\\S+ \\(pid #{front.pid}\\)" }
    assert_match(/^#{first}: \S+ can't be reached: .*\nstopped: no further server is restarted\. `paceline cluster` shows whether this one has the new code\nold code: #{second}, #{third}\n\z/,
      command.output)
    gate.open
    eventually("the first to end what it has begun") { versions == %w[slow old old] }
    out, status = rolling(@fronts[1])
    assert_equal 1, status
    assert_match(/can't be reached: .*\. Nothing was restarted$/, out)
    # It comes back empty: no order of before is obeyed.
    @valkey.start
    eventually("all servers") { control(@fronts[1], "/cluster")["members"].size == 3 }
    out, status = rolling(@fronts[1], "--watch", "0s", "--site", site(2))
    assert_equal [0, [2, 1, 2]], [status, numbers], out
    assert_match(/\A(.*\n)*1 of 3 .*: site not configured on this server\n/, out)
  end

  def test_servers_that_are_silent_are_left_out_only_if_that_is_wanted
    fronts(3, ttl: "400ms")
    third = @fronts[2]
    third.signal(:STOP)
    eventually("it to be silent") { member(@fronts[0], third)["is_silent"] }
    deploy("new")
    out, status = rolling(@fronts[0], "--watch", "0s")
    assert_equal 1, status
    assert_match(/\(pid #{third.pid}\) is silent, for \d+ s: nothing was restarted/, out)
    out, status = rolling(@fronts[0], "--watch", "0s", "--skip-silent")
    assert_equal 0, status, out
    assert_match(/^all 2 servers serve the new code\nleft out, because silent: \S+ \(pid #{third.pid}\)\n\z/, out)
    third.signal(:CONT)
    assert_equal %w[new new old], versions
  end

  def test_a_user_with_the_documented_rights_can_do_it_all
    docs = File.read(File.join(Scenario::CHECKOUT, "docs/cluster.md"))
    rule = docs[/^    (ACL SETUSER paceline on .*)$/, 1].sub(">PASSWORD", ">secret")
    @valkey.cli(*rule.split)
    fronts(2, url: @valkey.url("?user=paceline&pass=secret"))
    deploy("new")
    assert_equal 0, command(@fronts[0].dir, "maintenance", "on", "--cluster")[1]
    assert_equal 0, command(@fronts[1].dir, "maintenance", "off", "--cluster")[1]
    out, status = rolling(@fronts[0], "--watch", "0s")
    assert_equal [0, %w[new new]], [status, versions], out
    assert_equal 0, command(@fronts[0].dir, "purge", "--all")[1]
  end

  def test_each_server_shows_how_all_are_doing
    fronts(2)
    3.times { @fronts[1].get("/") }
    row = /pid #{@fronts[1].pid} +1 #{Regexp.escape(site(1))[0, 64]} +1 of 1 +\d+\.\d +\d\S* \S+ +0 +\S+/
    eventually("its figures") { command(@fronts[0].dir, "cluster")[0].match?(row) }
    status = member(@fronts[0], @fronts[1])["status"]
    assert_equal [1, 1, 1, 0], status.values_at("apps", "generation", "workers", "closed")
    page = eventually("the section") { plain(@fronts[0], "/").then { |shown| shown if shown.include?("pid #{@fronts[1].pid}") } }
    assert_match(/<h2>Cluster<\/h2>.*this one/m, page)
    metrics = plain(@fronts[0], "/metrics")
    assert_includes metrics, "\npaceline_cluster_reached 1\n"
    assert_includes metrics, "\npaceline_maintenance{site=\"#{site(0)}\"} 0\n"
  end

  def plain(front, path)
    UNIXSocket.open(File.join(front.dir, "tmp/paceline.sock")) do |io|
      io.write("GET #{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
      Timeout.timeout(Scenario::PATIENCE) { io.read }.force_encoding("UTF-8")
    end
  end

  def test_a_server_alone_says_so_and_what_to_do
    alone = serve(app("config.ru" => Members::APP, "version" => "old"))
    out, status = rolling(alone)
    assert_equal 1, status
    assert_match(/this server is alone: a table \[cluster\] .*use `paceline restart`/, out)
  end
end
