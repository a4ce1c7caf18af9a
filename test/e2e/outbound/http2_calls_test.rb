# Outbound calls over HTTP/2: shared connections, streams that are refused or break.
require_relative "../support/egress_scenario"

class EgressHttp2Test < Minitest::Test
  include EgressScenario

  def test_calls_share_one_connection_of_http2
    front
    authority = Authority.new
    trusting = %(ca_file="#{authority.file(@dir)}")
    all = Queue.new
    to = http2(authority) do |server, _|
      # None is answered before all are there.
      asked = Array.new(20) { server.request.tap { |_stream, fields| all << fields } }
      asked.each { |stream, fields| server.answer(stream, fields[":path"]) }
      server.rest
    end
    callers = Array.new(20) { caller_ }
    callers.each_with_index { |one, index| one.ask("https://localhost:#{to.port}/#{index}", trusting, fields: { "Host" => "virtual.example" }) }
    answers = callers.map(&:response)
    assert_equal Array.new(20) { |index| "/#{index}" }, answers.map(&:body)
    assert_equal [%("2")], answers.map { |answer| told(answer)["version"] }.uniq
    assert_equal 1, answers.count { |answer| told(answer)["new"] == "?1" }
    assert_equal 1, to.connections
    fields = take(all)
    assert_equal ["virtual.example", "https", nil], fields.values_at(":authority", ":scheme", "host")
  end

  def test_what_an_http2_upstream_has_not_looked_at_is_asked_again
    front
    authority = Authority.new
    trusting = %(ca_file="#{authority.file(@dir)}")
    refuse = lambda do |server, stream|
      server.refuse(stream)
      server.answer(server.request.first, "second")
    end
    { refused: [1, refuse], gone: [2, ->(server, _) { server.go_away(0) }] }.each do |name, (connections, refusing)|
      to = http2(authority) do |server, number|
        stream, = server.request
        number == 1 ? refusing.call(server, stream) : server.answer(stream, "second")
        server.rest
      end
      answer = call("https://localhost:#{to.port}/", trusting, method: "POST", body: "once")
      assert_equal [200, "second"], [answer.status, answer.body], name
      assert_equal connections, to.connections, name
    end
  end

  def test_a_stream_of_http2_that_breaks
    front
    authority = Authority.new
    trusting = %(ca_file="#{authority.file(@dir)}")
    to = http2(authority) do |server, _|
      while (stream, fields = server.request)
        stream.headers({ ":status" => "200" }, end_stream: false) if fields[":path"] == "/late"
        stream.close(:internal_error)
      end
    end
    assert_match(/\Aprotocol;message=".*INTERNAL_ERROR|internal error/, error(call("https://localhost:#{to.port}/", trusting)))
    assert_raises(EOFError) { caller_.call("https://localhost:#{to.port}/late", trusting) }
    assert_equal 1, to.connections
  end

  def test_http2_is_not_offered_to_who_wants_http1
    front
    authority = Authority.new
    to = secure(authority, "localhost", alpn: %w[h2 http/1.1]) do |link, _, tls|
      link.answer(tls.alpn_protocol.to_s) while link.head
    end
    assert_equal "http/1.1", call("https://localhost:#{to.port}/", %(ca_file="#{authority.file(@dir)}", http="1.1")).body
  end
end
