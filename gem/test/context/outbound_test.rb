# frozen_string_literal: true

require "http/support/case"
require "paceline/context"

# Calls of a request carry its id and trace.
class ContextOutboundTest < OutboundTest
  TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

  # What each call within a request was sent with: [X-Request-Id, traceparent, tracestate].
  def sent(env = { "HTTP_X_REQUEST_ID" => "ab12", "HTTP_TRACEPARENT" => TRACE, "HTTP_TRACESTATE" => "a=b" })
    server = server()
    Paceline::Context.new(->(_) { yield server.url("/plain"); [200, {}, []] }).call(env)
    server.asked.map { |request| [request["x-request-id"], request["traceparent"], request["tracestate"]] }
  end

  def test_a_call_carries_the_requests_id_and_trace
    assert_equal [["ab12", TRACE, "a=b"]] * 3, sent { |url| Paceline::HTTP.get(url); Paceline::HTTP.all { |calls| 2.times { calls.get(url) } } }
  end

  def test_so_does_one_in_a_thread_that_was_given_the_context
    assert_equal [["ab12", TRACE, "a=b"], [nil, nil, nil]],
                 sent { |url| Thread.new(&Paceline.current.wrap { Paceline::HTTP.get(url) }).join; Thread.new { Paceline::HTTP.get(url) }.join }
  end

  def test_fields_of_its_own_remain
    assert_equal [["mine", "other", nil]], sent { |url| Paceline::HTTP.get(url, headers: { "X-Request-Id" => "mine", "traceparent" => "other" }) }
  end

  def test_outside_a_request_nothing_is_added
    server = server()
    Paceline::HTTP.get(server.url("/plain"))
    asked = server.asked
    assert_equal [1, nil, nil], [asked.size, asked[0]["x-request-id"], asked[0]["traceparent"]]
  end
end
