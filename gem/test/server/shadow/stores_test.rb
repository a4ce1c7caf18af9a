# frozen_string_literal: true

require_relative "support/shadow_case"

# Caches, sessions, mails and jobs of a request stay in the shadow.
class ShadowStoresTest < ShadowCase
  GEM = File.expand_path("../../../lib", __dir__)
  CACHE = <<~RUBY
    $LOAD_PATH << #{GEM.inspect}
    require "active_support"
    require "active_support/cache"
    require "active_support/notifications"
    require "active_support/core_ext"
    CACHE = ActiveSupport::Cache.lookup_store(*STORE.(File.join(__dir__, "cache")))
    CACHE.write("there", "kept")
    CACHE.write("gone", "kept")
    CACHE.write("count", 5, raw: true)
  RUBY
  CACHES = {
    "files" => "->(path) { [:file_store, path] }", "paceline" => "->(path) { [:paceline_file_store, path] }"
  }.freeze
  # Code, and what it gives in the first request and in later ones.
  CACHED = [
    ["read", "CACHE.read('there')", "kept"], ["miss", "CACHE.read('missing').inspect", "nil"], ["fetch", "$n = ($n || 0) + 1; CACHE.fetch('new') { $n }", "1"],
    ["fetched", "CACHE.read('new')", "1"], ["write", "CACHE.write('there', 'mine'); CACHE.read('there')", "mine"], ["delete", "CACHE.delete('gone'); CACHE.read('gone').inspect", "nil"],
    ["exist", "[CACHE.exist?('gone'), CACHE.exist?('there')].inspect", "[false, true]"], ["multi", "CACHE.read_multi('gone', 'there', 'new', 'x').inspect", { "there" => "mine", "new" => 1 }.inspect],
    ["fetch_multi", "CACHE.fetch_multi('there', 'other') { |key| key * 2 }.values.join(' ')", "mine otherother"], ["write_multi", "CACHE.write_multi({ 'a' => 1 }); CACHE.read('a')", "1"],
    ["increment", "[CACHE.increment('count'), CACHE.increment('count', 2), CACHE.decrement('count')].inspect", "[6, 8, 7]"], ["counters", "CACHE.read('count', raw: true)", "5"],
    ["unless_exist", "[CACHE.write('there', 'no', unless_exist: true), CACHE.read('there')].inspect", '[false, "mine"]'], ["objects", "CACHE.read('there') << '!'; CACHE.read('there')", "mine"],
    ["expired", "CACHE.write('short', 'x', expires_in: 0.001); sleep 0.01; CACHE.read('short').inspect", "nil"], ["clear", "CACHE.clear; CACHE.write('b', 2); [CACHE.read('there'), CACHE.read('b')].inspect", "[nil, 2]"],
    ["cleanup", "CACHE.cleanup; CACHE.read('b')", "2"]
  ].freeze

  CACHES.each do |name, store|
    define_method("test_a_cache_in_#{name}") do
      require "paceline/native"
      skip "no native part" if name == "paceline" && !Paceline::Native
      routes = routes(CACHED.to_h { |path, code, _| ["/#{path}", "(#{code})"] })
      with_shadow("STORE = #{store}\n#{CACHE}#{routes}") do |shadow, dir, front|
        # The front of LMDB's lock file names the readers.
        contents = -> { Dir[File.join(dir, "cache*", "**", "*"), File.join(dir, "cache")].select { |path| File.file?(path) }.to_h { |path| [path, File.binread(path)] } }
        before = contents.call
        CACHED.each { |path, _, expected| assert_equal [expected, nil], shadow.get("/#{path}").values_at("text", "write"), path }
        assert_equal before, contents.call
        assert_equal "kept", shadow(front, dir).get("/read")["text"]
      end
    end
  end

  def test_counters_in_memory_last_for_one_request
    code = "STORE = ->(_) { [:memory_store] }\n#{CACHE}#{routes("/" => "CACHE.increment('visits', 1)", "/other" => "CACHE.fetch('x') { 'made' }")}"
    with_shadow(code) do |shadow|
      assert_equal %w[1 1], (Array.new(2) { shadow.get("/")["text"] })
      assert_equal "made", shadow.get("/other")["text"]
    end
  end

  # As Rails has it for each request.
  def test_what_a_request_keeps_before_the_cache
    code = "STORE = ->(_) { [:null_store] }\n#{CACHE}" + routes("/" => "CACHE.with_local_cache { CACHE.fetch('x') { 'made' } + CACHE.fetch('x') { 'again' } }")
    with_shadow(code) { |shadow| assert_equal %w[mademade] * 2, (Array.new(2) { shadow.get("/")["text"] }) }
  end

  def test_classes_are_looked_for_when_there_is_another
    require "paceline/server/shadow/guards"
    looks = 0
    parent = Class.new { define_singleton_method(:subclasses) { super().tap { looks += 1 if equal?(parent) } } }
    self.class.const_set(:PARENT, parent)
    child = Class.new(parent)
    descendants = Paceline::Server::Shadow::Guards::Descendants.new("ShadowStoresTest::PARENT")
    found = -> { [].tap { |all| descendants.settle { |one| all << one } } }
    # Twice, since another thread may still be defining one at the first look.
    assert_equal [[child], [child], [], 2], [found.call, found.call, found.call, looks]
    grandchild = Class.new(child)
    assert_equal [[child, grandchild], [child, grandchild], [], 4], [found.call, found.call, found.call, looks]
  ensure
    self.class.send(:remove_const, :PARENT)
  end

  # `/`: what the session has, and then one more; `/drop` ends it.
  SESSION = <<~'RUBY'
    run(lambda do |env|
      session = env["rack.session"]
      had = session["n"].to_i
      session["n"] = had + 1
      session.options[:drop] = true if env["PATH_INFO"] == "/drop"
      session.options[:renew] = true if env["PATH_INFO"] == "/renew"
      [200, {}, [had.to_s]]
    end)
  RUBY

  def cookie(result)
    result["headers"].find { |name, _| name.casecmp?("set-cookie") }&.last&.slice(/\A[^;]+/)
  end

  def test_sessions_in_memory
    app = <<~RUBY
      begin; require "rack/session"; rescue LoadError; end
      require "rack"
      use Rack::Session::Pool
      #{SESSION}
    RUBY
    with_shadow(app) do |shadow|
      first = shadow.get("/")
      assert_equal [first["text"], first["headers"]], shadow.get("/").values_at("text", "headers")
      assert_equal "0", first["text"]
      known = shadow.get("/", headers: [["cookie", cookie(first)]])
      assert_equal known["headers"], shadow.get("/", headers: [["cookie", cookie(first)]])["headers"]
      assert_equal "0", known["text"], "what a request has written is gone with it"
      assert_nil cookie(shadow.get("/drop"))
    end
  end

  def test_sessions_in_cookies
    app = "begin; require 'rack/session'; rescue LoadError; end\nrequire 'rack'\nuse Rack::Session::Cookie, secret: 's' * 64\n#{SESSION}"
    with_shadow(app) do |shadow|
      first = shadow.get("/")
      assert_equal first["headers"], shadow.get("/")["headers"]
      2.times { assert_equal "1", shadow.get("/", headers: [["cookie", cookie(first)]])["text"] }
    end
  end

  def test_sessions_of_paceline_in_a_file
    require "paceline/native"
    skip "no native part" unless Paceline::Native
    app = "begin; require 'rack/session'; rescue LoadError; end\n$LOAD_PATH << #{GEM.inspect}\nrequire 'rack'\nrequire 'paceline/session'\nFILE = File.join(__dir__, 'sessions')\n" \
          "use Rack::Session::Paceline, store: FILE\n#{SESSION}"
    with_front({ "config.ru" => app }) do |front, dir|
      front.await_start
      worker = front.fork_worker
      worker.await(F::READY)
      visit = lambda do |cookie|
        worker.channels[1].send(F::REQUEST, FakeFront.request({ "HTTP_COOKIE" => cookie }))
        FakeFront.answer(worker.channels[1])
      end
      cookie = visit.call("").header("set-cookie").first[/\A[^;]+/]
      assert_equal "1", visit.call(cookie).body
      before = File.binread(File.join(dir, "sessions"))
      shadow = shadow(front, dir)
      %w[/ / /renew /drop /].each { |path| assert_equal ["2", nil], shadow.get(path, headers: [["cookie", cookie]]).values_at("text", "write"), path }
      assert_equal "0", shadow.get("/")["text"]
      assert_equal before, File.binread(File.join(dir, "sessions"))
      assert_equal "2", visit.call(cookie).body
    end
  end

  MAIL = <<~'RUBY'
    require "action_mailer"
    require "active_job"
    require "net/smtp"
    ActionMailer::Base.delivery_method = :smtp
    ActionMailer::Base.smtp_settings = { address: "127.0.0.1", port: 1 }
    ActiveJob::Base.queue_adapter = :inline
    ActiveJob::Base.logger = ActionMailer::Base.logger = nil
    class Postman < ActionMailer::Base
      default from: "a@shop.test", to: "b@shop.test"
      def hello(name) = mail(subject: "Hello", body: "Hello #{name}", content_type: "text/plain")
    end
    class Count < ActiveJob::Base
      queue_as :slow
      def perform(name) = $performed = name
    end
  RUBY

  def test_mails_are_made_and_go_nowhere
    codes = { "/now" => "(Postman.hello('x').deliver_now.subject)", "/bang" => "(Postman.hello('x').deliver_now!; 'Hello')", "/own" => "(m = Mail.new(to: 'b@shop.test', from: 'a@shop.test', subject: 'Hello'); m.delivery_method(:smtp, { address: '127.0.0.1', port: 1 }); m.deliver!; 'Hello')",
              "/smtp" => "(Net::SMTP.start('127.0.0.1', 1) { } rescue $!.class.name)" }
    with_shadow("#{MAIL}#{routes(codes)}") do |shadow|
      %w[/now /bang /own].each { |path| assert_equal ["Hello", nil, nil], shadow.get(path).values_at("text", "write", "error"), path }
      result = shadow.get("/smtp")
      assert_equal ["Errno::ECONNREFUSED", "mail"], [result["text"], result["write"]["kind"]]
      assert_equal 1, shadow.get("/now", observe: true)["evidence"]["mail"]["count"]
    end
  end

  def test_jobs_are_noted_and_not_enqueued
    codes = { "/later" => "(Count.perform_later('secret'); $performed.inspect)", "/mail" => "(Postman.hello('secret').deliver_later; 'nil')", "/in" => "(Count.set(wait: 5).perform_later('secret'); $performed.inspect)" }
    with_shadow("#{MAIL}#{routes(codes)}") do |shadow|
      { "/later" => "Count in the queue slow", "/in" => "Count in the queue slow", "/mail" => /\AActionMailer::(Mail)?DeliveryJob in the queue \w+\z/ }.each do |path, what|
        result = shadow.get(path)
        assert_equal ["nil", "job"], [result["text"], result.dig("write", "kind")], path
        assert_operator what, :===, result["write"]["what"]
        assert_match(/\Aconfig\.ru:\d+\z/, result["write"]["at"])
      end
    end
  end

  def test_mails_that_are_left_to_jobs_by_a_patch_are_no_write
    with_shadow("#{MAIL}#{routes("/" => "(Postman.hello('x').deliver_now; 'sent')")}") do |shadow|
      assert_equal({ "ok" => true }, shadow.ask(do: "patch", name: "async_mail"))
      assert_equal ["sent", nil, nil], shadow.get("/").values_at("text", "write", "error")
    end
  end
end
