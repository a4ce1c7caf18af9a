# frozen_string_literal: true

require "helper"
require "paceline/server/flusher"

# What waits for company goes out late by the flusher, and the flusher rests when nothing waits.
class GathererTest < Paceline::Test
  class Channel
    attr_reader :written, :worker
    attr_accessor :writable

    def initialize
      @written = Thread::Queue.new
      @worker = Struct.new(:flusher).new(Paceline::Server::Flusher.new)
      @writable = true
    end

    def write(bytes) = @written << bytes
    def writable? = @writable
    def cancelled? = false
  end

  def gatherer(channel = Channel.new, immediate: false)
    Paceline::Server::Gatherer.new(channel, 7, "HEAD".b, immediate: immediate)
  end

  def flusher_thread = Thread.list.select { |thread| thread.name == "paceline flusher" }.last

  def test_what_waits_is_sent_and_the_rest_follows
    channel = Channel.new
    gathered = gatherer(channel)
    gathered.add("a")
    gathered.add("b")
    assert_equal "HEAD".b + F.answer(F::CHUNK, 7, "ab"), channel.written.pop
    gathered.add("c")
    gathered.finish
    gathered.conclude("END")
    assert_equal F.answer(F::CHUNK, 7, "c") + "END", channel.written.pop
    assert gathered.sent?
  end

  def test_nothing_is_sent_late_to_a_front_that_takes_nothing
    channel = Channel.new
    channel.writable = false
    gathered = gatherer(channel)
    gathered.add("a")
    Thread.pass until flusher_thread&.stop?
    assert_operator gathered.flush_late, :>, 0
    assert_empty channel.written
    channel.writable = true
    assert_equal "HEAD".b + F.answer(F::CHUNK, 7, "a"), channel.written.pop
  end

  # A thousand bodies that end at once leave nothing behind that would wake the flusher again and again.
  def test_the_flusher_rests_when_all_have_ended
    channel = Channel.new
    1000.times do
      gathered = gatherer(channel)
      gathered.add("a")
      gathered.finish
    end
    queue = channel.worker.flusher.instance_variable_get(:@queue)
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 10
    Thread.pass until queue.num_waiting == 1 && queue.empty? || Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
    assert_equal [true, 1], [queue.empty?, queue.num_waiting]
  end

  def test_full_writes_are_not_waited_with
    channel = Channel.new
    gathered = gatherer(channel)
    gathered.add("x" * Paceline::Server::Gatherer::LIMIT)
    assert_equal 1, channel.written.size
    immediate = gatherer(channel, immediate: true)
    immediate.add("y")
    assert_equal 2, channel.written.size
  end

  # The clock of the test stands: no pause is long enough.
  def test_flushes_without_a_pause_wait_for_company_after_the_first_ones
    channel = Channel.new
    gathered = gatherer(channel)
    time = 5.0
    gathered.define_singleton_method(:now) { time }
    channel.writable = false # the flusher sends nothing
    1000.times { gathered.add("x") && gathered.flush }
    assert_equal Paceline::Server::Gatherer::FLUSHES, channel.written.size
    time += 2 * Paceline::Server::Gatherer::DELAY
    gathered.flush
    assert_equal Paceline::Server::Gatherer::FLUSHES + 1, channel.written.size
    assert_empty gathered.pending
  end

  def test_each_event_is_flushed
    channel = Channel.new
    gathered = gatherer(channel, immediate: true)
    100.times { gathered.add("x") && gathered.flush }
    assert_equal 100, channel.written.size
  end
end
