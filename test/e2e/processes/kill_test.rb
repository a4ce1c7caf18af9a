# kill -9 of preloaders and workers at random moments, under load, with a restart now and then: only what was in a killed worker's hands may fail, and
# of that only what must not be asked twice. `bin/chaos` runs it for longer.
#
# CHAOS_SECONDS: how long. CHAOS_SEED: when, and who; printed, so that a run can be had again as nearly as time allows.
require_relative "../support/scenario"
require_relative "../support/traffic"

class KillTest < Minitest::Test
  include Scenario

  SECONDS = Float(ENV.fetch("CHAOS_SECONDS", "20"))
  SEED = Integer(ENV.fetch("CHAOS_SEED") { Random.new_seed % 1_000_000 })
  CLIENTS = 25
  WORKERS, THREADS = 2, 5
  # Seconds between two kills.
  PAUSES = (0.02..2.0)

  # Notes each request as it begins, with who took it.
  APP = <<~RUBY.freeze
    sleep 0.4
    BEGUN = File.open("begun", File::WRONLY | File::APPEND | File::CREAT)
    run ->(env) do
      body = env["rack.input"].read
      BEGUN.syswrite("\#{Process.pid} \#{env["REQUEST_METHOD"]} \#{env["PATH_INFO"].delete_prefix("/")}\\n")
      sleep rand * 0.02
      [200, {}, [env["REQUEST_METHOD"], env["PATH_INFO"].sub("/", " "), " ", body.bytesize.to_s]]
    end
  RUBY

  Kill = Struct.new(:at, :who, :pids)

  def test_whoever_is_killed_only_requests_in_his_hands_fail_and_idempotent_ones_do_not
    puts "", "  CHAOS_SEED=#{SEED}"
    dir = app("config.ru" => APP)
    server = serve(dir, "-w", WORKERS.to_s, "-t", THREADS.to_s, "-e", "production", "-q")
    traffic = Traffic.new(server.port, clients: CLIENTS, seed: SEED)
    kills = kill_for(SECONDS, server, traffic)
    outcomes = traffic.stop

    begun = File.readlines(File.join(dir, "begun"), chomp: true).map(&:split).group_by(&:last)
    failed = outcomes.select(&:failure)
    puts "  #{tell(outcomes, kills, failed)}"
    assert_operator kills.size, :>=, SECONDS.to_i / 3
    # Each is asked again once.
    tried = failed.select(&:idempotent?).reject { |one| one.status == 502 && kills.count { |kill| kill.at.between?(one.began, one.ended) } > 1 }
    assert_empty tried.map { |outcome| evidence(outcome, begun, kills) }, "idempotent requests failed"
    killed = kills.flat_map(&:pids)
    wronged = failed.reject { |outcome| outcome.status == 502 && Array(begun[outcome.token]).all? { |pid, _| killed.include?(pid.to_i) } }
    assert_empty wronged.map { |outcome| evidence(outcome, begun, kills) }, "requests failed that were in no killed worker's hands"
    once = outcomes.reject(&:idempotent?)
    assert_empty once.select { |outcome| Array(begun[outcome.token]).size > 1 }.map { |outcome| evidence(outcome, begun, kills) }, "begun twice"
    # A preloader takes its workers along.
    hands = kills.sum { |kill| THREADS * [kill.pids.size - (kill.who == "preloader" ? 1 : 0), 0].max }
    assert_operator failed.size, :<=, hands
    # What is killed again and again is replaced ever more slowly.
    eventually("all workers to be there again", within: PATIENCE + 60) { server.workers.size == WORKERS }
    assert_equal 0, server.stop.exitstatus
  end

  private

  def kill_for(seconds, server, traffic)
    random, kills, restarts = Random.new(SEED), [], 0
    while (left = seconds - traffic.clock).positive?
      sleep [random.rand(PAUSES), left].min
      # Then a generation boots beside the one that serves, or takes over from it, while either is killed.
      (restarts += 1) && server.signal(:USR1) if random.rand < 0.15
      who, victim = choose(server, random)
      next unless victim
      # Its workers die with it, at once.
      pids = [victim, *server.descendants(victim)]
      # Before it: a client may know of it at once.
      at = traffic.clock
      kills << Kill.new(at, who, pids) if kill(victim)
    end
    puts "  #{restarts} restarts"
    kills
  end

  # A worker three times out of four; else whatever else is Ruby: a preloader, or what will be one. Nobody, if there is none.
  def choose(server, random)
    ruby = server.descendants.select { |pid| File.readlink("/proc/#{pid}/exe").include?("ruby") rescue false }.sort
    workers, others = ruby.partition { |pid| server.title(pid).include?("paceline worker") }
    pool = random.rand < 0.75 ? workers : others
    victim = pool.sample(random: random)
    [server.title(victim.to_i)[/paceline \K(?:preloader|worker)/] || "booting", victim]
  end

  # Whether it was there to be killed.
  def kill(pid)
    Process.kill(:KILL, pid)
  rescue Errno::ESRCH
    false
  end

  def tell(outcomes, kills, failed)
    who = kills.map(&:who).tally.map { |name, count| "#{name} #{count}" }.join(", ")
    methods = failed.map(&:method).tally.map { |name, count| "#{name} #{count}" }.join(", ")
    waits = outcomes.map { |outcome| outcome.ended - outcome.began }.sort
    format("%d requests, %d kills (%s); failed: %s; longest %.2f s", outcomes.size, kills.size, who, failed.empty? ? "none" : methods, waits.last)
  end

  def evidence(outcome, begun, kills)
    near = kills.select { |kill| kill.at.between?(outcome.began - 0.5, outcome.ended + 0.1) }
    "#{outcome}\n    begun by #{begun[outcome.token]&.map(&:first).inspect}; kills: #{near.map { |kill| "#{kill.at.round(3)} #{kill.who} #{kill.pids}" }.join("; ")}"
  end
end
