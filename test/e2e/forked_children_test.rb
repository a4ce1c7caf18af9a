# The application forks: nobody gets another visitor's answer, and nobody waits for the child.
require_relative "support/scenario"

class ForkedChildrenTest < Minitest::Test
  include Scenario

  CLIENTS = 6
  REQUESTS = 60

  # As many visitors as there are threads and more; each notes whether an answer was his own.
  def visit(server)
    Array.new(CLIENTS) do |client|
      Thread.new do
        Net::HTTP.start("127.0.0.1", server.port, read_timeout: PATIENCE) do |http|
          Array.new(REQUESTS) { |n| http.get("/?#{client}-#{n}").then { |answer| [answer.code, answer.body == "user=#{client}-#{n}"] } }
        end
      end
    end.flat_map(&:value).tally
  end

  def test_each_visitor_gets_his_own_answers_after_a_bare_fork
    server = serve(app("config.ru" => <<~RUBY), "-w", "1", "-t", "3")
      run(lambda do |env|
        if env["PATH_INFO"] == "/job"
          exit if fork.nil?
          [200, {}, ["started"]]
        else
          [200, {}, ["user=", env["QUERY_STRING"]]]
        end
      end)
    RUBY
    worker = server.workers
    5.times { assert_equal "started", server.get("/job").body }

    assert_equal({ ["200", true] => CLIENTS * REQUESTS }, visit(server))
    assert_equal worker, server.workers
    eventually("the children to have ended") { server.descendants(worker.first).all? { |pid| server.title(pid).empty? } }
  end

  # The lock behind the lock: what comes from nobody knows where is never shown to anybody.
  def test_an_answer_with_a_wrong_number_is_a_502_and_its_worker_is_replaced
    server = serve(app("config.ru" => <<~RUBY), "-w", "1", "-t", "1")
      F = Paceline::Frames
      def forged(number) = F.response_head(number, 200, 0, F::Counters.new(0, 0, 0, 0, 0, ""), "", 6) + "forged"
      run(lambda do |env|
        channel = Thread.current[:paceline_channel]
        case env["PATH_INFO"]
        when "/earlier" then channel.io.write(forged(channel.request - 1))
        when "/behind" then env["rack.after_reply"] << -> { channel.io.write(F.answer(F::IDLE, channel.request), forged(channel.request)) }
        when "/torn" then next [200, {}, ->(stream) { stream.write("a" * 100_000); channel.io.write(F.chunk_head(channel.request - 1, 1), "b"); stream.write("c") }]
        end
        [200, {}, [Process.pid.to_s]]
      end)
    RUBY
    first = server.get("/").body

    assert_equal "502", server.get("/earlier").code
    server.wait_for(/its channel is broken: a frame for request \d+ in the answer to request \d+; replacing the worker$/)
    eventually("another worker") { (second = server.workers) && !second.empty? && second != [Integer(first)] }
    second = server.get("/").body
    refute_equal first, second

    assert_equal second, server.get("/behind").body
    assert_equal "502", server.get("/").code
    third = server.get("/").body
    refute_equal second, third

    torn = server.exchange("GET /torn HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    refute torn.match?(/b\r\n/) || torn.end_with?("0\r\n\r\n"), "a piece of another answer, or an end as if all were well"
    refute_equal third, server.get("/").body
  end
end
