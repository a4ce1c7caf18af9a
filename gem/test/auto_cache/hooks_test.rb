# frozen_string_literal: true

require "helper"
require "paceline/auto_cache"
require "paceline/auto_cache/hooks"

# A hooked method does what it did, and reports its call only while a request is recorded.
class AutoCacheHooksTest < Paceline::Test
  Hooks = Paceline::AutoCache::Hooks

  def recorded(&)
    Paceline::AutoCache.with(Paceline::AutoCache::Recording.new(nil), &)
  end

  def test_arguments_names_and_blocks_go_both_ways
    owner = Class.new { def add(first, more: 0) = yield(first + more) }
    told = []
    Hooks.on(owner, %i[add missing]) { |receiver, name, arguments, options| told << [receiver.class, name, arguments, options] }
    assert_equal 30, owner.new.add(1, more: 2) { |sum| sum * 10 }
    assert_empty told
    assert_equal 20, recorded { owner.new.add(2) { |sum| sum * 10 } }
    assert_equal 40, recorded { owner.new.add(1, more: 3) { |sum| sum * 10 } }
    assert_equal [[owner, :add, [2], {}], [owner, :add, [1], { more: 3 }]], told
    refute owner.method_defined?(:missing)
  end

  def test_operators_and_private_methods
    owner = Class.new do
      def self.[](*keys) = keys

      private

      def `(command) = "ran #{command}"
    end
    told = []
    Hooks.on_class(owner, [:[]]) { |_, name, arguments| told << [name, arguments] }
    Hooks.on(owner, [:`]) { |_, name, arguments| told << [name, arguments] }
    recorded do
      assert_equal [1, 2], owner[1, 2]
      assert_equal "ran it", owner.new.send(:`, "it")
    end
    assert_equal [[:[], [1, 2]], [:`, ["it"]]], told
    assert owner.private_method_defined?(:`)
  end

  # `is_a?` looks through them all on Ruby 3.1.
  def test_every_object_has_the_ancestors_it_had
    before, told = Object.ancestors, []
    Hooks.on(Object, [:srand]) { |_, name, arguments| told << [name, arguments] }
    assert_equal before, Object.ancestors
    recorded { srand(7) }
    assert_equal 7, srand(8)
    assert_equal [[:srand, [7]]], told
    assert_raises(NoMethodError) { 1.srand }
  ensure
    Object.send(:remove_method, :srand)
  end

  def test_a_recording_is_one_threads
    recorded do
      refute_nil Paceline::AutoCache.recording
      assert_nil Thread.new { Paceline::AutoCache.recording }.value
    end
    assert_nil Paceline::AutoCache.recording
  end

  def test_they_go_while_nothing_is_recorded_and_come_back
    skip "YJIT would compile them again each time" unless Hooks.removable?

    owner = Class.new { def add(first, more: 0) = yield(first + more) }
    told = []
    Hooks.on(owner, [:add]) { |_, name, arguments| told << [name, arguments] }
    Hooks.on(Object, [:srand]) { |_, name, arguments| told << [name, arguments] }
    ours = -> { [owner.instance_method(:add), Object.instance_method(:srand)].map { |method| method.source_location&.first&.end_with?("/hooks.rb") } }
    3.times do
      assert_equal [true, true], ours.call
      Paceline::AutoCache.rest
      assert_equal [false, nil], ours.call
      assert_equal 30, owner.new.add(1, more: 2) { |sum| sum * 10 }
      assert_includes Kernel.private_instance_methods, :srand
      assert_empty told
      recorded do
        Paceline::AutoCache.rest
        assert_equal 30, owner.new.add(1, more: 2) { |sum| sum * 10 }
        srand(Random.seed)
      end
      assert_equal [[:add, [1]], [:srand, [Random.seed]]], told
      told.clear
    end
  ensure
    Object.send(:remove_method, :srand)
  end

  # What the application writes over a method of Object's stays.
  def test_another_method_of_that_name_is_not_removed
    skip "YJIT would compile them again each time" unless Hooks.removable?

    Object.class_eval("private def paceline_sample = 1", __FILE__, __LINE__)
    Hooks.define(Object, Object, [:paceline_sample], ->(*) {})
    Object.class_eval("private def paceline_sample = 2", __FILE__, __LINE__)
    Paceline::AutoCache.rest
    assert_equal 2, paceline_sample
    recorded { assert_equal 2, paceline_sample }
    assert_equal 2, paceline_sample
  ensure
    Object.send(:remove_method, :paceline_sample) if Object.private_method_defined?(:paceline_sample)
  end
end
