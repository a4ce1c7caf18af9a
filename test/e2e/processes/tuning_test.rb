# What the server sets up for Ruby: variables, warm-up, garbage between requests. What the user has set wins, and no
# response differs by a byte.
require_relative "../support/scenario"

class TuningTest < Minitest::Test
  include Scenario

  NAMES = %w[MALLOC_ARENA_MAX RUBY_GC_HEAP_GROWTH_FACTOR RUBY_GC_HEAP_FREE_SLOTS RUBY_GC_HEAP_INIT_SLOTS RUBY_GC_HEAP_0_INIT_SLOTS RUBY_YJIT_ENABLE LD_PRELOAD].freeze
  CLEAR = NAMES.to_h { |name| [name, nil] }.freeze
  VARIABLES = <<~RUBY.freeze
    require "json"
    run ->(env) { [200, { "content-type" => "application/json" }, [#{NAMES}.to_h { |name| [name, ENV[name]] }.compact.to_json]] }
  RUBY

  def variables(server)
    require "json"
    JSON.parse(server.get("/").body)
  end

  def test_the_environment_is_left_alone
    %w[production development].each { |environment| assert_equal({}, variables(serve(app("config.ru" => VARIABLES), "-e", environment, "-w", "1", env: CLEAR))) }
  end

  # Ruby says after each collection that it was a full one, for want of free slots; it can't be brought there within seconds.
  def test_a_heap_that_is_collected_whole_in_vain_is_given_room
    skip "heaps of several sizes of slot" unless RUBY_VERSION < "3.2"
    files = { "config.ru" => <<~RUBY }
      KEPT = Array.new(300_000) { Object.new }
      def GC.latest_gc_info(*) = :nofree
      run ->(env) { GC.start; [200, { "content-type" => "text/plain" }, [GC.stat(:heap_available_slots).to_s]] }
    RUBY
    server = serve(app(files), "-e", "production", "-w", "1", "-t", "1", "--oob-gc=false", env: CLEAR)
    slots = Array.new(6) { Integer(server.get("/").body) }
    assert_operator slots.last, :>=, slots.first * 1.09, slots.inspect
  end

  def test_fewer_arenas
    server = serve(app("config.ru" => VARIABLES), "--malloc-arenas", "2", env: CLEAR)
    assert_equal({ "MALLOC_ARENA_MAX" => "2" }, variables(server))
  end

  def test_what_the_user_has_set_wins
    own = { "MALLOC_ARENA_MAX" => "7", "RUBY_GC_HEAP_INIT_SLOTS" => "12345" }
    server = serve(app("config.ru" => VARIABLES), "-e", "production", "--malloc-arenas", "2", env: CLEAR.merge(own))
    assert_equal own, variables(server)
  end

  def test_a_setting_that_there_is_no_more_is_refused
    out = IO.popen([BIN, "check"], chdir: app("config.ru" => VARIABLES, "paceline.toml" => "gc = \"auto\"\n"), err: %i[child out], &:read)
    refute_predicate $?, :success?
    assert_includes out, 'paceline.toml:1:1: "gc" is no longer a setting: remove it'
  end

  def test_the_start_line_tells_of_yjit_and_of_the_native_part
    native = Dir[File.expand_path("../../../gem/lib/paceline/native/#{RbConfig::CONFIG["ruby_version"]}-*/paceline_native.so", __dir__)].any?
    { { "PACELINE_NATIVE" => "0" } => "native part: no (PACELINE_NATIVE=0 leaves it out)", {} => native ? "native part: yes" : "native part: no (" }.each do |env, told|
      server = serve(app("config.ru" => VARIABLES), env: CLEAR.merge(env))
      assert_match(/ is ready: .*, ruby #{Regexp.escape(RUBY_VERSION)}(?: with YJIT)?, #{Regexp.escape(told)}/, server.output)
    end
  end

  # Only where "auto" would have switched it on, once however often the application is loaded.
  def test_a_ruby_without_yjit_is_told_of_once
    server = serve(app("config.ru" => VARIABLES), "-e", "production", env: CLEAR)
    server.signal(:USR1)
    server.wait_for(/is ready: .*is ready: /m)
    expected = RUBY_VERSION >= "3.3" && !defined?(RubyVM::YJIT) ? 1 : 0
    assert_equal expected, server.output.scan("was built without YJIT").size, server.output
    assert_equal 2 * expected, server.output.scan("ruby #{RUBY_VERSION} without YJIT").size
  end

  def test_another_allocator_where_it_is_installed
    installed = Dir["/usr/lib/{x86_64-linux-gnu/,aarch64-linux-gnu/,}libjemalloc.so.2", "/usr/lib64/libjemalloc.so.2", "/usr/local/lib/libjemalloc.so.2"].any?
    server = serve(app("config.ru" => VARIABLES), "--allocator", "jemalloc", env: CLEAR)
    assert_equal installed, variables(server)["LD_PRELOAD"].to_s.end_with?("/libjemalloc.so.2")
    assert_equal installed ? 0 : 1, server.output.scan("there is no libjemalloc.so.2 (Debian: apt install libjemalloc2)").size
  end

  def test_warm_up_requests_are_made_before_the_fork
    server = serve(app("config.ru" => <<~RUBY, "paceline.toml" => "warm_up = [\"/a?b=c\", \"/bad\"]\nworkers = 2\n"))
      seen = []
      run ->(env) do
        raise "not here" if env["PATH_INFO"] == "/bad"
        seen << "\#{env["REQUEST_METHOD"]} \#{env["PATH_INFO"]} \#{env["QUERY_STRING"]} \#{env["HTTP_HOST"]}"
        [200, { "content-type" => "text/plain" }, [seen.first]]
      end
    RUBY
    4.times { assert_equal "GET /a b=c localhost", server.get("/").body }
    assert_includes server.output, "paceline: warm_up: /bad: RuntimeError: not here"
  end

  def test_no_byte_differs_with_everything_on
    config = <<~RUBY
      run ->(env) do
        garbage = Array.new(20_000) { |i| "piece \#{i}" }
        body = case env["PATH_INFO"]
               when "/stream" then Enumerator.new { |out| garbage.each_slice(1000) { |some| out << some.join } }
               else [garbage.join(","), env["HTTP_HOST"]]
               end
        [200, { "content-type" => "text/plain", "x-own" => "1" }, body]
      end
    RUBY
    plain, tuned = [%w[--yjit off], %w[--yjit on --malloc-arenas 2 --oob-gc --compact --warm-up /stream --warm-up /]].map do |flags|
      server = serve(app("config.ru" => config), "-t", "3", *flags, env: CLEAR)
      Array.new(3) { Thread.new { Array.new(10) { |i| server.get(i.odd? ? "/stream" : "/", "Host" => "a.test") } } }.flat_map(&:value).map do |answer|
        [answer.code, answer.to_hash.except("date", "x-request-id"), answer.body]
      end
    end
    assert_equal plain.uniq.sort_by(&:to_s), tuned.uniq.sort_by(&:to_s)
  end

  # The figures are printed, since they belong to the machine; only what would be out of all proportion fails.
  def test_a_worker_shares_what_the_preloader_loaded
    server = serve(app("config.ru" => <<~RUBY), "-w", "2", "-t", "2", "-e", "production", env: CLEAR)
      TABLE = Array.new(400_000) { |i| "an entry of some length, number \#{i}, in a table" }
      run ->(env) { [200, { "content-type" => "text/plain" }, [TABLE[rand(TABLE.size)].size.to_s]] }
    RUBY
    200.times { server.get("/") }
    preloader, workers = server.descendants.partition { |pid| File.read("/proc/#{pid}/cmdline").include?("preloader") }
    rss = File.read("/proc/#{preloader.first}/smaps_rollup")[/^Rss: +(\d+)/, 1].to_i * 1024
    workers.each { |pid| assert_operator server.private_memory(pid), :<, rss / 2 }
  end
end
