# frozen_string_literal: true

require_relative "../restart/visit"

# What belongs to a restart and what to the quiet, and what a client counts as failed.
class RestartBenchTest < Minitest::Test
  def request(began, ended, version = 1, failure = nil) = Bench::SteadyLoad::Request.new(began, ended, true, version, failure)

  def test_a_window_lasts_until_the_old_version_has_answered_for_the_last_time
    requests = [request(9, 9.5), request(10.1, 10.2), request(11, 11.1, 2), request(10.9, 12, 1), request(13, 13.1, 2)]
    assert_equal [10, 12 + Bench::RestartVisit::MARGIN], Bench::RestartVisit.window(requests, 10, 2, 10)
  end

  def test_a_window_of_a_version_that_never_answers_is_as_long_as_it_was_waited_for
    requests = [request(9, 9.5), request(10.1, 10.2), request(14, 14.1)]
    assert_equal [10, 13 + Bench::RestartVisit::MARGIN], Bench::RestartVisit.window(requests, 10, 2, 13)
  end

  def test_a_failure_opens_no_window
    requests = [request(10.1, 10.2, nil, "status 500"), request(11, 11.5, 2)]
    assert_equal [10, 11.5 + Bench::RestartVisit::MARGIN], Bench::RestartVisit.window(requests, 10, 2, 10)
  end

  def test_requests_that_touch_a_window_belong_to_it
    requests = [request(1, 2), request(2.5, 3.5), request(3.2, 3.3), request(3.9, 5), request(5, 6)]
    during, quiet = Bench::RestartVisit.divide(requests, [[3, 4]])
    assert_equal [[2.5, 3.2, 3.9], [1, 5]], [during, quiet].map { |some| some.map(&:began) }
  end

  def test_without_capistrano_its_way_is_named_with_the_reason
    path, ENV["PATH"] = ENV["PATH"], "/nowhere"
    error = assert_raises(Bench::RunningServer::Failed) { Bench::CapistranoApp.new("capistrano", boot_ms: 1, work_ms: 1) }
    assert_equal "not installed: there is no `cap`", error.message
  ensure
    ENV["PATH"] = path
  end

  def test_times_are_of_what_was_answered
    times = Bench::RestartVisit.times([request(0, 1), request(0, 3), request(0, 9, nil, "status 503")])
    assert_equal [2, 1, 3, 3], times.to_a
  end

  # A server that closes a kept connection while its client is thinking, and answers something else then and again.
  def test_only_what_is_not_the_right_answer_fails
    listener = TCPServer.new("127.0.0.1", 0)
    serving = Thread.new do
      ["HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nv7\n", "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nv8\n", ""].each do |answer|
        socket = listener.accept
        nil until socket.gets == "\r\n"
        socket.write(answer)
        socket.close
      end
      listener.close
    end
    load = Bench::SteadyLoad.new(port: listener.addr[1], clients: 1, think: 0.5).start
    told = Array.new(2) { load.versions.gets.to_i }
    serving.join
    result = load.stop
    assert_equal [7, 8], told
    assert_equal [[7, nil], [nil, "status 503"], [8, nil]], result.requests.first(3).map { |one| [one.version, one.failure] }
    assert_match(/no response|ECONNRESET/, result.requests[3].failure)
    assert_operator result.closed_idle, :>, 0
  ensure
    load&.kill
  end

  def test_a_refused_connection_is_a_failure
    port = TCPServer.open("127.0.0.1", 0) { |listener| listener.addr[1] }
    load = Bench::SteadyLoad.new(port: port, clients: 2, think: 0.01).start
    sleep 2
    failures = load.stop.requests.map(&:failure)
    assert_operator failures.size, :>, 2
    assert_match(/ECONNREFUSED/, failures.uniq.join)
  ensure
    load&.kill
  end
end
