# frozen_string_literal: true

require "helper"
require "stringio"
require "paceline/tour/screen"

# What the tour shows, and its questions.
class TourScreenTest < Minitest::Test
  def screen(keys = nil)
    @out = StringIO.new
    Paceline::Tour::Screen.new(@out, keys && StringIO.new(keys))
  end

  def test_output_is_cut_and_has_no_control_characters
    screen.output("\n\e[2Jone\ntwo\nthree\n", lines: 2)
    assert_equal "     [2Jone\n    two\n    ... 1 more lines\n\n", @out.string
  end

  def test_sentences_are_wrapped
    screen.say("word " * 40)
    assert_operator @out.string.lines.map(&:size).max, :<=, 99
    assert_equal 40, @out.string.split.size
  end

  def test_enter_goes_on_and_q_ends
    screen("\n").pause
    ["q\n", ""].each { |keys| assert_raises(Paceline::Tour::Stopped) { screen(keys).pause } }
    assert_nil screen.pause, "without a terminal nobody is asked"
  end
end
