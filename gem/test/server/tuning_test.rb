# frozen_string_literal: true

require "helper"
require "paceline/server/tuning"
require "paceline/server/out_of_band_gc"

# What is done to a loaded app before the fork, and the collector that works between requests.
class TuningTest < Paceline::Test
  YJIT = Class.new do
    attr_reader :calls

    def initialize(enabled: false) = (@enabled, @calls = enabled, 0)
    def enabled? = @enabled
    def enable = @calls += 1
  end

  # Puts `yjit` in the place of Ruby's own, which this Ruby may not have, or not be able to switch on now.
  def enabled_by(yjit: YJIT.new, env: {}, **settings)
    own = RubyVM.const_defined?(:YJIT, false) ? RubyVM.send(:remove_const, :YJIT) : nil
    RubyVM.const_set(:YJIT, yjit) if yjit
    before = %w[RUBY_YJIT_ENABLE RUBYOPT].to_h { |name| [name, ENV.fetch(name, nil)] }
    before.each_key { |name| ENV.delete(name) }
    ENV.update(env)
    Paceline::Server::Tuning.new({ "yjit" => "auto", "environment" => "production" }.merge(settings.transform_keys(&:to_s))).prepare(nil)
    yjit&.calls
  ensure
    RubyVM.send(:remove_const, :YJIT) if yjit
    RubyVM.const_set(:YJIT, own) if own
    before&.each { |name, value| ENV[name] = value }
  end

  def test_yjit_is_switched_on_once_where_it_is
    assert_equal 1, enabled_by
    assert_equal 0, enabled_by(yjit: YJIT.new(enabled: true))
    assert_nil enabled_by(yjit: nil)
    no_switch = Struct.new(:enabled?, :calls).new(false, 0) # Ruby 3.1 and 3.2
    assert_equal 0, enabled_by(yjit: no_switch)
  end

  def test_yjit_is_somebody_else_s_decision
    assert_equal 0, enabled_by(yjit: YJIT.new, "yjit" => "off")
    assert_equal 0, enabled_by(environment: "development")
    assert_equal 1, enabled_by(environment: "development", "yjit" => "on")
    assert_equal 0, enabled_by(env: { "RUBY_YJIT_ENABLE" => "0" })
    assert_equal 0, enabled_by(env: { "RUBYOPT" => "--disable-yjit" })
  end

  # Ruby 4.0 has two compilers, and asked for a second one it says that only one can be on.
  def test_yjit_stays_off_beside_zjit
    own = RubyVM.const_defined?(:ZJIT, false) ? RubyVM.send(:remove_const, :ZJIT) : nil
    { true => [0, 0, ""], false => [1, 1, "on"] }.each do |enabled, expected|
      RubyVM.const_set(:ZJIT, Struct.new(:enabled?).new(enabled))
      assert_equal expected, [enabled_by, enabled_by("yjit" => "on"), state(yjit: YJIT.new)]
      RubyVM.send(:remove_const, :ZJIT)
    end
  ensure
    RubyVM.const_set(:ZJIT, own) if own
  end

  # What the start line tells, of a Ruby of VERSION with `yjit` as its YJIT.
  def state(yjit:, version: "3.3.8", **settings)
    said = nil
    own = RubyVM.const_defined?(:YJIT, false) ? RubyVM.send(:remove_const, :YJIT) : nil
    RubyVM.const_set(:YJIT, yjit) if yjit
    with_version(version) { said = Paceline::Server::Tuning.new({ "yjit" => "auto", "environment" => "production" }.merge(settings.transform_keys(&:to_s))).yjit_state }
    said
  ensure
    RubyVM.send(:remove_const, :YJIT) if yjit
    RubyVM.const_set(:YJIT, own) if own
  end

  def with_version(version)
    own = RUBY_VERSION
    set = ->(text) { Object.send(:remove_const, :RUBY_VERSION) && Object.const_set(:RUBY_VERSION, text) }
    set[version]
    yield
  ensure
    set[own]
  end

  def test_the_start_line_tells_of_yjit
    assert_equal "on", state(yjit: YJIT.new(enabled: true))
    assert_equal "on", state(yjit: YJIT.new), "it will be, when the application is loaded"
    assert_equal "", state(yjit: YJIT.new, "yjit" => "off")
    assert_equal "missing", state(yjit: nil)
    assert_equal "", state(yjit: nil, environment: "development")
    assert_equal "", state(yjit: nil, "yjit" => "off")
    assert_equal "", state(yjit: nil, version: "3.2.9"), "it could not be switched on there"
    assert_equal "", state(yjit: Struct.new(:enabled?).new(false), version: "3.1.2")
  end

  def test_a_ruby_without_yjit_that_is_asked_for_it
    _, err = capture_io { enabled_by(yjit: nil, "yjit" => "on") }
    assert_equal "paceline: yjit = \"on\": Ruby #{RUBY_VERSION} was built without YJIT; continuing without it\n", err
  end

  def test_rails_own_setting
    settings = Struct.new(:yjit)
    rails = Module.new
    rails.define_singleton_method(:application) { Struct.new(:config).new(settings.new(false)) }
    Object.const_set(:Rails, rails)
    assert_equal 0, enabled_by
    rails.define_singleton_method(:application) { Struct.new(:config).new(settings.new(nil)) }
    assert_equal 1, enabled_by
    rails.define_singleton_method(:application) { nil }
    assert_equal 1, enabled_by
  ensure
    Object.send(:remove_const, :Rails)
  end

  def test_warm_up
    asked = []
    closed = 0
    body = ["x"]
    body.define_singleton_method(:close) { closed += 1 }
    app = lambda do |env|
      asked << env.values_at("REQUEST_METHOD", "PATH_INFO", "QUERY_STRING", "HTTP_HOST", "rack.url_scheme", "rack.input").map { |value| value.respond_to?(:read) ? value.read : value }
      raise "no" if env["PATH_INFO"] == "/bad"
      [env["PATH_INFO"] == "/ill" ? 500 : 200, {}, body]
    end
    tuning = Paceline::Server::Tuning.new({ "warm_up" => "/a?b=c /bad /ill", "host" => "shop.test", "yjit" => "off" })
    _, err = capture_io { tuning.prepare(app) }
    assert_equal ["GET", "/a", "b=c", "shop.test", "https", ""], asked.first
    assert_equal 3, asked.size
    assert_equal 2, closed
    assert_match(/warm_up: \/bad: RuntimeError: no\n/, err)
    assert_match(/warm_up: \/ill was answered with 500\n/, err)
  end

  def test_what_comes_after_a_response_comes_after_a_warm_up_too
    done = []
    app = lambda do |env|
      env["rack.response_finished"] << ->(_, status, _, error) { done << [status, error&.message] } << ->(*) { raise "late" }
      env["rack.after_reply"] << -> { done << "reply" }
      env["PATH_INFO"] == "/bad" ? raise("no") : [200, {}, []]
    end
    _, err = capture_io { Paceline::Server::Tuning.new({ "warm_up" => "/a /bad", "yjit" => "off" }).prepare(app) }
    assert_equal [[200, nil], "reply", [nil, "no"], "reply"], done
    assert_equal 2, err.scan("RuntimeError: late").size
  end

  def test_threads_that_the_fork_would_lose_are_told
    app = lambda do |_env|
      @left = Thread.new { sleep }
      [200, {}, []]
    end
    _, err = capture_io { Paceline::Server::Tuning.new({ "warm_up" => "/", "yjit" => "off" }).prepare(app) }
    assert_match(/warm_up started 1 thread, which workers will not have/, err)
  ensure
    @left&.kill
  end

  # How often it collects.
  def collections(io, others_rest: true)
    collector = Paceline::Server::OutOfBandGC.new
    GC.start
    20.times.sum do
      Array.new(GC.stat(:heap_free_slots) / 10) { Object.new }
      before = GC.count
      collector.run(io) { others_rest }
      GC.count - before
    end
  end

  def test_garbage_is_collected_while_nobody_waits
    reading, writing = IO.pipe
    # By itself Ruby would collect sooner in a heap whose slots are of several sizes; who asks for it gets it also now.
    GC.disable
    assert_operator collections(reading), :>, 0
    assert_equal 0, collections(reading, others_rest: false)
    writing << "x"
    assert_equal 0, collections(reading)
  ensure
    GC.enable
  end
end
