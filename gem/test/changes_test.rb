# frozen_string_literal: true

# What an action may say of when its page changes, and the header that the front gets.
require "helper"
require "date"
require "paceline/changes"
require "paceline/server/changes"

class ChangesTest < Paceline::Test
  # As ActiveSupport extends Date, with a zone two hours east.
  class RailsDate < Date
    def in_time_zone = Time.new(year, month, day, 0, 0, 0, "+02:00")
  end

  def setup = Paceline::Server::Changes.start

  def teardown = Paceline::Server::Changes.start

  # What the front is told after these were said.
  def told(*times, headers: {})
    times.each { |time| Paceline.changes_at(time) }
    Paceline::Server::Changes.announce(headers)["paceline-changes-at"]
  end

  def test_each_kind_of_time
    assert_equal "1795780800.000", told(Time.at(1_795_780_800))
    assert_equal "1795780800.250", told(1_795_780_800.25)
    assert_equal "1795780800.000", told(1_795_780_800)
    assert_equal "1795780800.000", told(DateTime.new(2026, 11, 27, 14, 0, 0, "+02:00"))
    assert_equal format("%.3f", Time.new(2026, 11, 27).to_f), told(Date.new(2026, 11, 27))
    assert_equal "1795730400.000", told(RailsDate.new(2026, 11, 27)), "the day begins in Rails' zone"
  end

  def test_nil_says_nothing
    assert_nil Paceline.changes_at(nil)
    headers = { "x" => "1" }
    assert_same headers, Paceline::Server::Changes.announce(headers)
  end

  def test_a_text_is_a_mistake
    error = assert_raises(ArgumentError) { Paceline.changes_at("tomorrow") }
    assert_includes error.message, "tomorrow"
  end

  def test_it_answers_the_time
    time = Time.at(1_795_780_800)
    assert_same time, Paceline.changes_at(time)
  end

  def test_what_is_no_time_is_not_told
    assert_nil told(0, -1, Float::INFINITY, Float::NAN)
  end

  def test_the_sixteen_nearest_times_are_told
    soon = Time.now.to_i + 3600
    nearest = (1..16).map { |number| format("%.3f", soon + number) }
    assert_equal nearest.reverse, told(*(1..300).map { |number| soon + number }.reverse, *1..20).split(", ")
    assert_equal "1.000", told(1, 1), "each once"
  end

  def test_a_header_of_the_application_s_own_stays
    assert_equal "5, 7.000", told(7, headers: { "paceline-changes-at" => "5" })
  end

  def test_nothing_is_left_for_the_next_request
    Paceline.changes_at(7)
    Paceline::Server::Changes.start
    assert_nil told
    Paceline.changes_at(7)
    told
    assert_nil told, "it was told"
  end
end
