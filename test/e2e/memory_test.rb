# What memory the processes are said to use, what made a worker grow, and what is done with one that uses too much.
require_relative "support/control"
require_relative "support/scenario"

class MemoryTest < Minitest::Test
  include Scenario
  include Control

  MB = 1024 * 1024

  # Keeps what /leak asks for, and holds it for the time of the request alone at /loan.
  LEAK = <<~'RUBY'
    $kept = []
    run ->(env) do
      case env["PATH_INFO"]
      when "/leak" then $kept << ("x" * env["QUERY_STRING"].to_i)
      when "/objects" then $kept << Array.new(env["QUERY_STRING"].to_i) { +"an object of forty bytes, and more" }
      end
      [200, {}, [Process.pid.to_s]]
    end
  RUBY

  # Another reading of the same: every mapping of /proc/PID/smaps, added up here.
  def smaps(pid)
    sums = Hash.new(0)
    File.foreach("/proc/#{pid}/smaps") { |line| sums[$1] += $2.to_i * 1024 if line =~ /\A(\w+): +(\d+) kB/ }
    status = File.read("/proc/#{pid}/status")
    { "rss" => sums["Rss"], "pss" => sums["Pss"], "private_dirty" => sums["Private_Dirty"] + sums["Private_Hugetlb"],
      "private_clean" => sums["Private_Clean"], "shared" => sums["Shared_Clean"] + sums["Shared_Dirty"], "swap" => sums["Swap"],
      "virtual" => status[/^VmSize:\s+(\d+) kB/, 1].to_i * 1024 }
  end

  def assert_agrees(pid, told, name)
    real = smaps(pid)
    real.each do |key, bytes|
      assert_in_delta bytes, told[key], [bytes * 0.03, 512 * 1024].max, "#{key} of #{name}"
    end
    assert_in_delta real["shared"] / real["rss"].to_f, told["shared_share"], 0.05
  end

  def test_the_account_agrees_with_every_mapping_of_every_process
    server = serve(app("config.ru" => LEAK), "-w", "2", "-t", "1")
    8.times { server.get("/leak?#{2 * MB}") }
    account = control(server, "/memory")
    generation, = account["sites"].values.first["generations"]
    assert_equal server.workers.sort, generation["workers"].map { |worker| worker["pid"] }.sort
    assert_equal server.preloaders, [generation["preloader"]["pid"]]

    assert_agrees server.pid, account["front"], "the front"
    assert_agrees generation["preloader"]["pid"], generation["preloader"], "the preloader"
    generation["workers"].each { |worker| assert_agrees worker["pid"], worker, "worker #{worker["index"]}" }
    sum = ->(key) { generation["workers"].sum { |worker| worker[key] } }
    assert_equal sum["private_dirty"], generation["of_workers"]["private_dirty"]
    assert_equal sum["rss"] + generation["preloader"]["rss"] + account["front"]["rss"], account["all"]["rss"]
    assert_operator sum["private_dirty"], :>=, 16 * MB
    assert_operator sum["rss"], :>, sum["private_dirty"], "what is shared counts once for each in RSS"
    assert_equal 64 * MB, account["front"]["cache"]["budget"]
    assert_equal File.read("/proc/meminfo")[/MemTotal: +(\d+)/, 1].to_i * 1024, account["machine"]["total"]
  end

  def test_ruby_tells_what_its_heap_holds
    server = serve(app("config.ru" => LEAK), "-w", "1", "-t", "1")
    heap = ->(process) { control(server, "/memory")["sites"].values.first["generations"][0].then(&process)["heap"] }
    worker = ->(generation) { generation["workers"][0] }
    before = heap[worker]
    server.get("/objects?200000")
    after = heap[worker]
    assert_operator after["live"], :>=, before["live"] + 150_000
    assert_operator after["slots"], :>=, after["live"]
    assert_in_delta after["slots"], after["pools"].sum { |pool| pool["slots"] }, after["slots"] * 0.02
    assert_operator after["bytes"], :>=, after["slots"] * 40
    assert_includes 0.0..1.0, after["gc_share"]
    assert_operator heap[->(generation) { generation["preloader"] }]["live"], :>, 1000
  end

  def test_the_command_says_what_it_means_and_which_route_made_a_worker_grow
    dir = app("config.ru" => LEAK)
    server = serve(dir, "-w", "2", "-t", "1")
    # Worked with once, so that each has been looked at.
    eventually("a first look") { workers(server).all? { |worker| worker["growth"] } }
    20.times { server.get("/") }
    10.times { server.get("/leak?#{6 * MB}") }
    worker = eventually("the growth to be seen") do
      server.get("/")
      workers(server).find { |one| one["growth"]["routes"].any? { |route| route["route"] == "GET /leak" && route["bytes"] > 10 * MB } }
    end
    assert_equal "GET /leak", worker["growth"]["routes"].first["route"]

    out, status = command(dir, "memory")
    assert_equal 0, status, out
    assert_match(/\A\S+: 2 workers really cost [\d.]+ MB, not the [\d.]+ MB that their RSS adds up to\. The preloader, /, out)
    assert_match(/^\S+: worker \d grew by [\d.]+ MB since it was forked, most with GET \/leak \([\d.]+ MB in \d+ requests?\)\.$/, out)
    assert_match(/^front +#{server.pid} /, out)
    assert_match(/^  preloader +#{server.preloaders.first} /, out)
    server.workers.each { |pid| assert_match(/^  worker \d +#{pid} /, out) }
    json, status = command(dir, "memory", "--json")
    assert_equal [0, server.pid], [status, JSON.parse(json)["front"]["pid"]]
  end

  private

  def workers(server) = control(server, "/memory")["sites"].values.first["generations"][0]["workers"]
end
