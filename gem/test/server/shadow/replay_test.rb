# frozen_string_literal: true

require_relative "support/shadow_case"

# One request in a shadow: its env, all kinds of bodies, what is measured, and what becomes of an application that fails.
class ShadowReplayTest < ShadowCase
  # Each path is a kind of answer; what a body was asked for is in /told.
  APP = <<~'RUBY'
    class Body
      def initialize(*pieces) = @pieces = pieces
      def each = @pieces.each { |piece| yield piece }
      def close = $told << "closed"
    end
    class Page < Body
      def to_path = __FILE__
      def each = $told << "each"
    end
    class Failing < Body
      def each = (yield("half"); raise("torn"))
    end
    $told = []
    $count = 0
    ANSWERS = {
      "/array" => -> { [200, { "Content-Type" => "text/plain" }, ["one", "", "two"]] },
      "/each" => -> { [200, {}, Body.new("\u00fc", "\xff".b)] },
      "/stream" => -> { [200, {}, ->(stream) { stream.write("a", "b"); stream << "c"; stream.flush; stream.close }] },
      "/file" => -> { [200, {}, Page.new] },
      "/204" => -> { [204, {}, Body.new("none")] },
      "/304" => -> { [304, {}, Body.new("none")] },
      "/fields" => -> { [200, { "Set-Cookie" => "a=1\nb=2", "X-Raw" => "\xff".b, "rack.hijack" => -> {} }, []] },
      "/raise" => -> { raise "\xffoops".b },
      "/torn" => -> { [200, {}, Failing.new] },
      "/exit" => -> { exit(3) },
      "/status" => -> { [42, {}, Body.new] },
      "/field" => -> { [200, { "a b" => "c" }, Body.new] },
      "/nothing" => -> { [200, {}, Object.new] },
      "/caught" => -> { $env["action_dispatch.exception"] = KeyError.new("inner"); [500, {}, ["sorry"]] },
      "/callbacks" => -> { $env["rack.after_reply"] << -> { $told << "after" }
                           ($env["rack.response_finished"] || []) << ->(*given) { $told << "finished #{given[1]}" }
                           [201, {}, Body.new] },
      "/told" => -> { [200, {}, [$told.join(" ").tap { $told = [] }]] },
      "/env" => -> { [200, {}, [$env.map { |name, value| "#{name}=#{value.inspect}\n" }.sort.join]] },
      "/types" => -> { [200, {}, [$env.values.grep(String).map { |value| [value.encoding, value.valid_encoding?] }.uniq.inspect]] },
      "/input" => -> { [200, {}, [$env["rack.input"].read.inspect]] },
      "/garbage" => -> { [200, {}, [10_000.times.map { |n| n.to_s }.size.to_s]] },
      "/collections" => -> { [200, {}, [GC.stat(:major_gc_count).to_s]] },
      "/count" => -> { [200, {}, [($count += 1).to_s]] },
      "/slow" => -> { sleep(0.03); [200, {}, [($count += 1).to_s]] },
      "/large" => -> { [200, {}, Body.new(*Array.new(300) { "x" * 5000 })] },
    }
    run(lambda { |env| $env = env; ANSWERS.fetch(env["PATH_INFO"]).call })
  RUBY

  def setup
    @front = FakeFront.new(root: @dir = File.realpath(Dir.mktmpdir).tap { |dir| File.write(File.join(dir, "config.ru"), APP) })
    assert_equal F::LOADED, @front.await_start.type
    @shadow = shadow(@front, @dir)
  end

  def teardown
    @front.stop
    FileUtils.rm_rf(@dir)
  end

  def get(...) = @shadow.get(...)

  def rack3? = @shadow.hello["rack"].to_i >= 3

  def test_bodies
    %w[gathered pieces].each do |deliver|
      { "/array" => ["onetwo", 2], "/each" => ["\u00fc".b << "\xff".b, 2], "/stream" => ["abc", 3], "/file" => [APP, 1], "/204" => ["", 0], "/304" => ["", 0],
        "/large" => ["x" * 1_500_000, 300] }.each do |path, (text, pieces)|
        result = get(path, deliver: deliver)
        assert_nil result["error"], path
        assert_equal [text.b, text.bytesize, pieces], result.values_at("text", "body_bytes", "pieces"), "#{path}, #{deliver}"
      end
      assert_equal "closed closed closed closed closed", get("/told")["text"], "each body with a close, none was read but by its file"
    end
    assert_equal ["", 0], get("/array", method: "HEAD").values_at("text", "pieces")
  end

  def test_status_and_fields
    result = get("/fields", id: 99)
    assert_equal [99, 200], result.values_at("id", "status")
    assert_equal [["Set-Cookie", "a=1"], ["Set-Cookie", "b=2"], ["X-Raw", "?"]], result["headers"]
    assert_equal [["Content-Type", "text/plain"]], get("/array")["headers"]
  end

  def test_what_the_app_raises
    line = APP.lines.index { |text| text.include?("oops") } + 1
    result = get("/raise")
    assert_equal [500, "", { "class" => "RuntimeError", "message" => "?oops", "at" => "config.ru:#{line}" }], result.values_at("status", "text", "error")
    { "/torn" => %w[RuntimeError torn], "/exit" => %w[SystemExit exit], "/status" => ["Paceline::InvalidResponse", "status 42"],
      "/field" => ["Paceline::InvalidResponse", 'header name "a b" is not a token'], "/missing" => ["KeyError", 'key not found: "/missing"'],
      "/nothing" => ["Paceline::InvalidResponse", "the body has neither to_ary, each nor call"] }.each do |path, expected|
      %w[gathered pieces].each do |deliver|
        result = get(path, deliver: deliver)
        assert_equal [500, ""], result.values_at("status", "text")
        assert_equal expected, result["error"].values_at("class", "message"), path
      end
    end
    assert_equal "closed " * 5 + "closed", get("/told")["text"], "/torn, /status and /field, twice each"
    result = get("/caught")
    assert_equal ["sorry", "KeyError"], [result["text"], result["error"]["class"]]
    assert_nil get("/array")["error"]
  end

  def test_callbacks
    get("/callbacks")
    assert_equal rack3? ? "closed finished 201" : "closed", get("/told")["text"]
  end

  def test_env
    headers = [["Accept", "a"], ["accept", "b"], ["cookie", "x=1"], ["Cookie", "y=2"], ["X_Forwarded_For", "1"], ["host", "evil"], ["X-Request-Id", "2"], ["proxy", "evil"],
               ["content-length", "3"], ["x-forwarded-for", "192.0.2.1"]]
    env = get("/env", query: "a=%20b", headers: headers, scheme: "https", host: "shop.test:8443")["text"].lines(chomp: true).to_h { |line| line.split("=", 2) }
    { "REQUEST_METHOD" => "GET", "SCRIPT_NAME" => "", "PATH_INFO" => "/env", "QUERY_STRING" => "a=%20b", "REQUEST_URI" => "/env?a=%20b", "SERVER_NAME" => "shop.test",
      "SERVER_PORT" => "8443", "SERVER_PROTOCOL" => "HTTP/1.1", "REMOTE_ADDR" => "127.0.0.1", "rack.url_scheme" => "https", "HTTPS" => "on",
      "HTTP_HOST" => "shop.test:8443", "HTTP_ACCEPT" => "a, b", "HTTP_COOKIE" => "x=1; y=2", "HTTP_X_FORWARDED_FOR" => "192.0.2.1",
      "HTTP_X_REQUEST_START" => "t=1764000000.000000" }.each { |name, value| assert_equal value.inspect, env[name], name }
    assert_empty env.keys & %w[HTTP_PROXY CONTENT_LENGTH HTTP_CONTENT_LENGTH rack.hijack? rack.hijack rack.early_hints]
    assert_empty env.values.grep(/evil/)
    assert_equal rack3?, env.key?("rack.response_finished")
    assert_equal rack3?, !env.key?("rack.version")
    assert_match(/\A"\h{32}"\z/, env["HTTP_X_REQUEST_ID"])
    assert_equal "[[#<Encoding:ASCII-8BIT>, true]]", get("/types")["text"].sub("BINARY (ASCII-8BIT)", "ASCII-8BIT")
    assert_equal '""', get("/input")["text"]
  end

  def test_ports_and_hosts
    { ["shop.test", "http"] => %w[shop.test 80], ["shop.test", "https"] => %w[shop.test 443], ["[::1]:81", "http"] => %w[[::1] 81], ["", "http"] => %w[127.0.0.1 80] }.each do |(host, scheme), server|
      env = get("/env", host: host, scheme: scheme)["text"]
      assert_equal server, %w[NAME PORT].map { |name| env[/^SERVER_#{name}="(.*)"/, 1] }
    end
  end

  def test_what_is_measured
    result = get("/garbage")
    assert_operator result["wall_us"], :>, 0
    assert_operator result["cpu_us"], :>, 0
    assert_operator result["allocated"], :>=, 10_000
    assert_operator result["gc_us"], :>=, 0
    assert_nil result["evidence"]
  end

  def test_a_short_request_that_is_timed_is_answered_twice
    assert_equal "1", get("/count")["text"]
    result = get("/count", warm: true)
    assert_equal "3", result["text"]
    assert_operator result["wall_us"], :>, 0
    get("/slow", warm: true)
    assert_equal "5", get("/count")["text"]
  end

  # What a template said is given by its number within an answer.
  def test_a_what_if_is_tried_in_both_answers
    rows = "Array.new(2) { ActionView::Base.with_empty_template_cache.with_view_paths([File.join(__dir__, 'views')]).render(partial: 'row') }.join(',')"
    app = "require 'logger'\nrequire 'active_support/all'\nrequire 'action_view'\n$made = 0\n#{routes("/rows" => rows)}"
    with_shadow({ "config.ru" => app, "views/_row.html.erb" => "<%= $made += 1 %>" }) do |shadow|
      assert_equal({ "ok" => true }, shadow.ask(do: "patch", name: "free_view", view: "views/_row.html.erb"))
      assert_equal "1,2", shadow.get("/rows")["text"]
      assert_equal "1,2", shadow.get("/rows", warm: true)["text"]
    end
  end

  # Sinatra answers /page as a middleware, and passes all else on.
  def test_the_framework_that_has_answered_is_told
    app = "require 'sinatra/base'\nclass Shop < Sinatra::Base\n  set :environment, :production\n  get('/page') { 'of Sinatra' }\nend\nuse Shop\n#{routes("/other" => "1")}"
    with_shadow({ "config.ru" => app }) do |shadow|
      answers = %w[/page /other].map { |path| shadow.get(path, observe: true).then { |one| [one["text"], one["evidence"]["framework"]] } }
      assert_equal [["of Sinatra", "sinatra"], %w[1 rack]], answers
    end
  end

  # As that of a redirect of Rails 6.1.
  def test_a_body_whose_to_ary_is_nil
    app = "class Body\n  def to_ary = nil\n  def each = yield('moved')\nend\nrun ->(_env) { [302, { 'location' => '/login' }, Body.new] }\n"
    with_shadow({ "config.ru" => app }) do |shadow|
      assert_equal [302, "moved", nil], shadow.get("/account").values_at("status", "text", "error")
    end
  end

  # What a library raises is no line of the application's.
  def test_exceptions_are_counted_by_their_lines
    body = "  30.times do\n    Integer('n/a')\n  rescue ArgumentError\n    0\n  end\n  30.times { JSON.parse('[') rescue 0 }\n"
    with_shadow({ "config.ru" => "require 'json'\ndef answer\n#{body}end\n#{routes("/rescued" => "answer")}" }) do |shadow|
      assert_equal [{ "at" => "config.ru:4", "count" => 30 }], shadow.get("/rescued", observe: true)["evidence"]["raised"]
    end
  end

  def test_observing
    evidence = get("/garbage", observe: true)["evidence"]
    assert_equal %w[cache framework gc json log mail middleware outbound pstore raised records session sql views xml xml_mini], evidence.keys.sort
    assert_nil get("/garbage")["evidence"]
  end

  def test_a_collection_once_all_requests_have_come
    collections = -> { Integer(get("/collections")["text"]) }
    first = collections.call
    get("/array")
    assert_operator collections.call, :>, first
    third = collections.call
    assert_includes third..third + 1, collections.call, "there is one more if the heap wants it"
  end

  def test_recordings_are_there_when_they_are_recorded
    assert_kind_of Hash, get("/array", outbound: "record")["recording"]
    refute get("/array").key?("recording")
  end
end
