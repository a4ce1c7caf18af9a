# What programs read of the server: Prometheus' metrics, each line of which is checked, and its health.
require_relative "../support/scenario"
require_relative "../support/asking"

class MetricsTest < Minitest::Test
  include Scenario
  include Asking

  APP = <<~'RUBY'
    run lambda { |env|
      File.read(env["HTTP_X_BARRIER"]) if env["HTTP_X_BARRIER"]
      raise "broken" if env["PATH_INFO"] == "/broken"
      [200, env["PATH_INFO"] == "/kept" ? { "cache-control" => "max-age=60" } : {}, ["hello"]]
    }
  RUBY

  def serve_app(*arguments, **options) = serve(app("config.ru" => APP, "public/file.txt" => "a file"), *arguments, **options)

  # The samples of an exposition: {[name, labels] => value}. Held to the format's grammar and to what promtool checks.
  def samples(text)
    assert text.end_with?("\n")
    family = type = nil
    seen, samples = [], {}
    text.each_line(chomp: true) do |line|
      case line
      when /\A# HELP ([a-z_:]+) (.+)\z/
        refute_includes seen, family = $1
        seen << family
        type = nil
      when /\A# TYPE ([a-z_:]+) (counter|gauge|histogram)\z/
        assert_equal [family, nil], [$1, type], "TYPE follows HELP: #{line}"
        assert_equal $2 == "counter", family.end_with?("_total"), line
        type = $2
      when /\A([a-z_:]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\[\\"n])*"(?:,(?!\})|(?=\})))+)\})? (-?\d+(?:\.\d+)?(?:e-?\d+)?)\z/
        name, written, value = $1, $2.to_s, Float($3)
        labels = written.scan(/([a-z_]+)="((?:[^"\\]|\\.)*)"/).to_h
        suffix = name.delete_prefix(family)
        assert_includes type == "histogram" ? %w[_bucket _sum _count] : [""], suffix, line
        refute samples.key?([name, labels]), "twice: #{line}"
        samples[[name, labels]] = value
      else
        flunk "no line of the format: #{line.inspect}"
      end
    end
    check_histograms(samples)
    samples
  end

  def check_histograms(samples)
    buckets = samples.select { |(name, _), _| name.end_with?("_bucket") }
    buckets.group_by { |(name, labels), _| [name, labels.except("le")] }.each do |(name, labels), of_one|
      bounds = of_one.map { |(_, with), _| with["le"] == "+Inf" ? Float::INFINITY : Float(with["le"]) }
      counts = of_one.map(&:last)
      assert_equal [bounds.sort, counts.sort, Float::INFINITY], [bounds, counts, bounds.last], "#{name} #{labels}"
      assert_equal counts.last, samples.fetch([name.sub("_bucket", "_count"), labels])
      assert samples.key?([name.sub("_bucket", "_sum"), labels])
    end
  end

  def metrics(server)
    status, text, headers = control(server, "/metrics")
    assert_equal [200, "text/plain; version=0.0.4; charset=utf-8"], [status, headers["content-type"]]
    samples(text)
  end

  def test_what_was_answered_and_who_works
    server = serve_app("-w", "2", "-t", "3")
    barrier = barrier(server.dir)
    %w[/ /broken /file.txt /kept /kept /kept].each { |path| server.get(path) }
    waiting = Thread.new { server.get("/", "X-Barrier" => barrier.path) }
    site = { "site" => File.basename(server.dir) }
    found = eventually("all to be counted") do
      found = metrics(server)
      requests = found.sum { |(name, _), value| name == "paceline_requests_total" ? value : 0 }
      busy = found.values_at(["paceline_worker_threads", site.merge("state" => "busy")], ["paceline_requests_in_flight", site])
      found if requests == 6 && busy == [1, 1]
    end
    one = ->(name, labels = {}) { found.fetch([name, site.merge(labels)]) }
    answered = ->(kind, code) { one["paceline_requests_total", { "kind" => kind, "code_class" => code }] }
    assert_equal [2, 1, 1, 2], [answered["app", "2xx"], answered["app", "5xx"], answered["static", "2xx"], answered["cache", "2xx"]]
    assert_equal [3, 3], %w[paceline_queue_duration_seconds_count paceline_app_duration_seconds_count].map { |name| one[name] }
    assert_equal [1, 0, 5], [one["paceline_requests_in_flight"], one["paceline_queue_depth"], one["paceline_worker_threads", { "state" => "idle" }]]
    assert_equal [1, 1, 2, 2], [one["paceline_app_ready"], one["paceline_generation"], one["paceline_workers", { "state" => "ready" }], one["paceline_workers_wanted"]]
    assert_equal [2, 1, 1], %w[paceline_cache_hits_total paceline_cache_stored_total].map { |name| one[name] } << found[["paceline_ready", {}]]

    memory = found.select { |(name, _), _| name == "paceline_memory_private_bytes" }
    pids = memory.map { |(_, labels), _| labels["pid"].to_i }
    assert_equal [server.pid, *server.preloaders, *server.workers].sort, pids.sort
    assert_operator memory.values.min, :>, 100_000
    barrier.open
    waiting.join
  end

  def test_a_worker_that_was_killed_is_counted
    server = serve_app
    Process.kill(:KILL, server.workers.first)
    key = ["paceline_worker_restarts_total", { "site" => File.basename(server.dir), "reason" => "crash" }]
    eventually("it to be counted") { metrics(server)[key] == 1 }
  end

  def test_a_name_that_would_break_the_format
    name = %(a"b\\c)
    server = serve(File.join(app("#{name}/config.ru" => APP), name))
    server.get("/")
    labels = { "site" => %(a\\"b\\\\c), "kind" => "app", "code_class" => "2xx" }
    eventually("it to be counted") { metrics(server)[["paceline_requests_total", labels]] == 1 }
  end

  def test_health
    server = serve_app
    assert_equal [200, "ok\n"], control(server, "/livez").first(2)
    eventually("readiness") { control(server, "/healthz").first(2) == [200, "ok\n"] }
    name = File.basename(server.dir)
    assert_equal 200, control(server, "/healthz?site=#{name}").first
    assert_equal 404, control(server, "/healthz?site=other").first
  end

  def test_an_app_that_does_not_start_is_not_healthy
    dir = app("config.ru" => "File.read(#{File.join("barrier").inspect}); raise 'not today'")
    barrier = barrier(dir)
    server = serve(dir, ready: false)
    name = File.basename(dir)
    assert_equal [503, "#{name}: starting\n"], control(server, "/healthz").first(2)
    barrier.open
    server.wait_for(/not today/)
    eventually("the failure to be told") { control(server, "/healthz").first(2) == [503, "#{name}: did not start\n"] }
    failed = ["paceline_generations_total", { "site" => name, "result" => "failed" }]
    assert_equal 1, metrics(server)[failed]
    assert_equal [200, 405], [control(server, "/livez").first, control(server, "/healthz", method: "POST").first]
  end

  def test_a_server_that_drains_is_not_healthy
    server = serve(app("config.ru" => APP, "paceline.toml" => "shutdown_delay = \"1m\"\n"))
    server.signal(:TERM)
    server.wait_for(/Draining/)
    assert_equal [503, "draining\n"], control(server, "/healthz").first(2)
    server.signal(:KILL)
  end
end
