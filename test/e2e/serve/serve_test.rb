# An application in a directory is served by one command, and stopped without losing a request.
require_relative "../support/scenario"

class ServeTest < Minitest::Test
  include Scenario

  def test_a_rack_application_is_served
    server = serve(app("config.ru" => 'run ->(env) { [200, { "content-type" => "text/plain" }, ["hello from ", env["PATH_INFO"]]] }'))

    answer = server.get("/there")

    assert_equal ["200", "hello from /there"], [answer.code, answer.body]
    assert_equal 0, server.stop.exitstatus
  end

  def test_term_lets_the_request_in_hand_finish
    dir = app("config.ru" => 'run ->(env) { File.write("entered", "x"); File.read("barrier"); [200, {}, ["done"]] }')
    gate, entered = barrier(dir), barrier(dir, "entered")
    server = serve(dir)

    asking = Thread.new { server.get("/") }
    entered.wait
    server.signal(:TERM)
    server.wait_for(/Stopping/)
    gate.open

    assert_equal "done", asking.value.body
    assert_equal 0, server.wait.exitstatus
  end
end
