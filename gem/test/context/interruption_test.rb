# frozen_string_literal: true

require "helper"
require "paceline/context"
require_relative "../support/interruption"

# Another thread may raise something (Timeout), or end this one, whenever a method that is written in C returns. Here it happens at each of these moments, one
# after the other: every time the context is that of before.
class ContextInterruptionTest < Minitest::Test
  include Interruption

  # A body with code of its own.
  class Pieces
    def each = yield("a".dup)
    def close = "closed".dup
  end

  # In a thread of its own, which only this request uses.
  def in_request
    Thread.new do
      app = Paceline::Context.new(lambda do |_|
        yield
        [200, {}, []]
      end)
      app.call("REMOTE_USER" => "ann")
    end.join
  end

  def test_run_is_taken_back_at_every_moment
    in_request do
      count = (1..).take_while do |calls|
        stopped = stopped?(calls) { Paceline.current.run(user: "admin") { Paceline.current.user.dup } }
        assert_equal "ann", Paceline.current.user.to_s, "call #{calls}"
        stopped
      end
      assert_operator count.size, :>, 5
    end
  end

  def test_a_request_is_over_at_every_moment
    scope = nil
    app = Paceline::Context.new(lambda do |env|
      scope = env["paceline.context"]
      Paceline.current.user.to_s.dup
      [200, {}, Pieces.new]
    end)
    count = (1..).take_while do |calls|
      stopped = stopped?(calls) do
        _, _, body = app.call("REMOTE_USER" => "ann")
        begin
          body.each(&:itself)
        ensure
          body.close
        end
      end
      # The next one of this thread finds nothing, whatever was left.
      Paceline::Context.new(->(_) { assert_nil Paceline.current.user; [200, {}, []] }).call({})
      assert_nil Paceline.current.user, "call #{calls}"
      assert_nil scope&.user, "call #{calls}"
      stopped
    end
    assert_operator count.size, :>, 10
  end
end
