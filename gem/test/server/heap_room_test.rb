# frozen_string_literal: true

require "helper"
require "paceline/server/heap_room"

class HeapRoomTest < Minitest::Test
  HeapRoom = Paceline::Server::HeapRoom

  # A collector whose heap grows while it is off.
  class Collector
    attr_reader :count, :slots

    def initialize
      @count = 100
      @slots = 500_000
      @off = false
    end

    def stat(_name) = @off ? @slots += 1000 : @slots
    def latest_gc_info(_name) = @reason
    def disable = @off.tap { @off = true }
    def enable = @off.tap { @off = false }
    def on? = !@off

    # Collections, the last one for this REASON.
    def collect(reason, times: 1, slots: @slots)
      @count += times
      @reason = reason
      @slots = slots
    end
  end

  # Ruby's collector in the state that gives a heap room.
  class Pressed
    attr_accessor :count

    def initialize = @count = 0
    def latest_gc_info(_name) = :nofree
    def stat(name) = GC.stat(name)
    def disable = GC.disable
    def enable = GC.enable
  end

  def setup
    @collector = Collector.new
    @room = HeapRoom.new(@collector)
  end

  def collected(...)
    @collector.collect(...)
    @room.check
  end

  def test_a_heap_that_is_collected_whole_in_vain_three_times_is_given_a_tenth
    refute @room.check
    assert_equal [false, false, true], Array.new(3) { collected(:nofree, times: 9) }
    assert_operator @collector.slots, :>=, 550_000
    assert_operator @collector.slots, :<, 560_000
    assert_predicate @collector, :on?
    assert_equal [false, false, true], Array.new(3) { collected(:nofree, times: 9) }
  end

  def test_one_collection_is_counted_once
    collected(:nofree)
    10.times { refute @room.check }
  end

  def test_not_where_full_collections_make_the_heap_larger
    10.times { |nth| refute collected(:nofree, slots: (500_000 * (1.02**(nth + 1))).to_i) }
  end

  def test_a_heap_that_grows_by_a_page_at_a_time_is_given_room_too
    assert_equal [false, false, true], Array.new(3) { |nth| collected(:nofree, slots: 500_000 + (nth * 409)) }
  end

  def test_not_where_they_are_seldom
    10.times { refute collected(:nofree, times: 21) }
  end

  def test_not_for_small_collections_and_full_ones_for_other_reasons
    [nil, :oldgen, :oldmalloc, :shady, :force].each { |reason| 5.times { refute collected(reason) } }
  end

  def test_a_collector_that_was_off_stays_off
    collector = Pressed.new
    room = HeapRoom.new(collector)
    GC.disable
    assert_includes Array.new(4) { collector.count += 1 and room.check }, true
    assert GC.disable
  ensure
    GC.enable
  end

  def test_a_real_heap_has_more_free_slots_afterwards
    held = Array.new(300_000) { Object.new } # of a heap that is nearly empty Ruby gives pages back
    collector = Pressed.new
    room = HeapRoom.new(collector)
    GC.start
    before, free = GC.stat.values_at(:heap_available_slots, :heap_free_slots)
    assert_includes Array.new(4) { collector.count += 1 and room.check }, true
    GC.start
    assert_operator GC.stat(:heap_available_slots), :>=, before * 1.09
    assert_operator GC.stat(:heap_free_slots), :>, free
    refute GC.disable.tap { GC.enable }
    assert_equal 300_000, held.size
  end

  def test_only_where_the_heap_has_one_size_of_slot
    assert_equal RUBY_VERSION < "3.2", HeapRoom.wanted?
  end
end
