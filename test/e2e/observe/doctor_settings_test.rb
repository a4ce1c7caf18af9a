# `paceline doctor apply` where the advice is a setting: the server tries it as a canary, goes on with it or takes it back, and the file follows.
require_relative "../support/scenario"
require_relative "../support/asking"
require_relative "../support/beside_doctor"

class DoctorSettingsTest < Minitest::Test
  include Scenario
  include Asking
  include BesideDoctor

  # Its page is long and told without compression. A request with X-Live is slow unless the garbage collector has a number of ours. /meet is answered
  # when six are there at once, each with an address of its own: requests for the same page would be one for the application.
  APP = <<~'RUBY'
    rows = Array.new(2000) { |row| "row #{row} of the price list\n" }.join.freeze
    there = Queue.new
    run lambda { |env|
      slots = ENV["RUBY_GC_HEAP_FREE_SLOTS"]
      sleep 0.05 if env["HTTP_X_LIVE"] == "much" && slots != "200000"
      text = case env["PATH_INFO"]
             when "/meet"
               there << true
               sleep 0.005 until there.size >= 6
               "met"
             when "/slots" then slots.to_s
             else rows
             end
      [200, { "content-type" => "text/html", "cache-control" => "no-store" }, [text]]
    }
  RUBY
  TOML = <<~TOML.freeze
    # The shop's.
    environment = "production"
    threads = 4   # of each worker
    compress = false

    # Not asked.
    ready_path = "off"
  TOML
  SLOTS = "env = { RUBY_GC_HEAP_FREE_SLOTS = \"200000\" }".freeze

  # A server in a git tree, with a result whose advice 1 is to compress pages.
  def advised
    dir = app("config.ru" => APP, "paceline.toml" => TOML, ".gitignore" => "Gemfile.lock\ntmp\nstate\n")
    found = report(dir, "--offline", ".", "--server", "paceline", "--path", "/page", "--only", "uncompressed_pages", status: [0, 1])
    assert_equal ["compress = true"], found["advice"].map { |advice| advice["fix"]["line"] }
    commit(dir)
    serve(dir, "-w", "1")
  end

  # Makes it another setting that its trial has shown to save 40 ms, or nothing that is time.
  def advise(server, key, value, trial, gains = [])
    path = Dir[File.join(server.dir, "{state/paceline,tmp/paceline}/doctor*.json")].first
    kept = JSON.parse(File.read(path))
    verdict = kept["report"]["advice"].first["verdict"]
    fix = { "file" => "paceline.toml", "line" => "#{key} = #{value}", "edit" => { "kind" => "setting", "key" => key, "value" => value } }
    verdict["candidate"].merge!("fix" => fix, "trial" => trial)
    verdict.merge!("gains" => gains, "compression" => [])
    File.write(path, JSON.generate(kept))
  end

  def advise_slots(server)
    gain = { "route" => "GET /page", "share" => 1.0, "gain_us" => 40_000.0, "of_us" => 50_000.0, "interval_us" => [38_000.0, 42_000.0], "bound" => "measured" }
    variables = { "RUBY_GC_HEAP_FREE_SLOTS" => "200000" }
    advise(server, "env", SLOTS.delete_prefix("env = "), { "kind" => "environment", "env" => variables, "unset" => [], "ruby_options" => [] }, [gain])
  end

  # What `paceline doctor apply 1` says, while visitors ask for whom the change saves `live`.
  def applied(server, live, *arguments, status: 0)
    applying = Thread.new { doctor(server.dir, "apply", 1, "--for", "2s", *arguments, status: status) }
    visitors = 8.times.map { Thread.new { server.get("/page", "X-Live" => live) while applying.alive? } }
    visitors.each(&:join)
    applying.value
  end

  def toml(server) = File.read(File.join(server.dir, "paceline.toml"))
  def slots(server) = server.get("/slots").body
  def threads(server) = control_json(server, "/status")["sites"].values.first["threads"]
  def changed(server) = git(server.dir, "status", "--porcelain")

  def test_what_visitors_have_nothing_of_is_taken_out_of_the_file_again
    server = advised
    before = slots(server)
    advise_slots(server)
    said = applied(server, "nothing", status: 1)
    assert_match(/: changed paceline.toml$/, said)
    assert_match(/until its gain on GET \/page is known/, said)
    assert_match(/: rolled back: it \w+ \S+ ms \(.*\) of \S+ ms of GET \/page, in the trial 40 \(38 to 42\)$/, said)
    assert_match(/: paceline.toml is as it was before$/, said)
    assert_equal [TOML, "", before], [toml(server), changed(server), slots(server)]

    said = applied(server, "much")
    assert_match(/: kept; to undo it, run: git checkout paceline.toml && paceline rollback$/, said)
    assert_equal ["#{TOML}#{SLOTS}\n", "200000"], [toml(server), slots(server)]
    assert_equal 0, command(server, "restart", "--wait").last
    assert_equal "200000", slots(server), "it is a setting of the application from now on"
  end

  def test_more_threads_are_there_at_once_and_can_be_gone_back_from
    server = advised
    load = ->(threads) { { "workers" => 1, "threads" => threads, "threads_min" => threads } }
    advise(server, "threads", "6", { "kind" => "load", "from" => load[4], "to" => load[6], "visitors" => 8 })
    said = applied(server, "nothing")
    assert_match(/then all if it does no worse/, said)
    assert_match(/is ready: production, 1 x 6 threads, .*: kept; to undo it, run: git checkout paceline.toml && paceline rollback$/m, said)
    assert_equal [TOML.sub("threads = 4", "threads = 6"), 6], [toml(server), threads(server)]
    assert_equal ["met"] * 6, 6.times.map { |number| Thread.new { server.get("/meet?#{number}").body } }.map(&:value)

    git(server.dir, "checkout", "--quiet", "paceline.toml")
    assert_equal 0, command(server, "rollback", "--wait").last
    assert_equal 4, threads(server)
  end

  def test_what_a_flag_decides_is_not_tried
    server = advised
    server.kill
    server = serve(server.dir, "-w", "1", "-t", "3")
    advise(server, "threads", "6", { "kind" => "untried", "why" => "for a test" })
    said = doctor(server.dir, "apply", 1, status: 1)
    assert_match(/: not tried: no effect: already set to this value, or overridden by a flag or environment variable$/, said)
    assert_match(/: paceline.toml is as it was before$/, said)
    assert_equal [TOML, 3], [toml(server), threads(server)]
  end

  # The front itself reads it: a new one takes over.
  def test_a_setting_of_the_front
    server = advised
    coding = -> { server.get("/page", "Accept-Encoding" => "gzip")["content-encoding"] }
    assert_nil coding.call
    said = doctor(server.dir, "apply", 1)
    assert_match(/the server reads paceline.toml only when it starts: upgrading it$/, said)
    assert_match(/: kept; to undo it, run: git checkout paceline.toml && paceline upgrade$/, said)
    assert_equal [TOML.sub("compress = false", "compress = true"), "gzip"], [toml(server), coding.call]

    git(server.dir, "checkout", "--quiet", "paceline.toml")
    advise(server, "compress", "true", { "kind" => "compression" })
    write(server.dir, "config.ru" => "raise 'not today'")
    commit_again(server.dir)
    said = doctor(server.dir, "apply", 1, status: 1)
    assert_match(/: rolled back: /, said)
    assert_match(/: paceline.toml is as it was before$/, said)
    assert_equal [TOML, "gzip"], [toml(server), coding.call], "the one before goes on"
  end

  def commit_again(dir) = git(dir, "commit", "--all", "--quiet", "--message", "A mistake")
end
