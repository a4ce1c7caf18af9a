# frozen_string_literal: true

require_relative "support/case"

# The same calls by plain Net::HTTP, over lent connections of this process, and through a front: the same responses, the same errors with the same words, and
# the same requests at the server. What differs by nature is named in the case.
class OutboundDifferentialTest < OutboundTest
  WAYS = %i[plain lent front].freeze
  # Fields of the hop, which the front ends, and what says that a connection is not to be kept.
  HOP = %w[connection keep-alive transfer-encoding trailer].freeze

  GETS = %w[
    / /plain /utf8 /html /binary /nothing /big /chunked /chunked-big /chunk-broken /chunk-bad /until-close /short /bad-status /bad-header /bad-length /two-lengths
    /informational /no-content /not-modified /reset-content /gzip /deflate /gzip-broken /gzip-cut /gzip-chunked /identity /brotli /redirect /http10 /http10-kept
    /lf /folded /spaces /cookies /latin1 /close /hint /part /no-reason /empty-reason /teapot /unknown /error /unauthorized /slow-head /empty /reset /gone-in-head /missing
  ].freeze

  def self.same(name, options = {}, &calls)
    define_method("test_#{name}") { compare(name, **options, &calls) }
  end

  GETS.each do |path|
    # What came of a response of HTTP/1.0, or of one without a number, is told in HTTP/1.1 by the front.
    same("get_#{path}", path: path) { |http| http.get(path) }
    same("streamed_#{path}", path: path) do |http|
      got = +"".b
      response = http.request_get(path) { |incoming| incoming.read_body { |piece| got << piece } }
      [response, got]
    end
    same("head_#{path}", path: path) { |http| http.head(path) } unless path == "/informational"
  end

  same(:raw_when_an_encoding_is_asked_for) { |http| http.get("/gzip", "Accept-Encoding" => "gzip") }
  same(:a_range_is_not_decoded) { |http| http.get("/part", "Range" => "bytes=0-3") }
  same(:echoed_get) { |http| http.get("/echo?a=1&b=%20", "X-One" => "1", "x-two" => "2", "Accept" => "text/plain") }
  same(:post) { |http| http.post("/echo", "a=1&b=2") }
  same(:post_of_nothing) { |http| http.post("/echo", nil) }
  same(:post_with_a_type) { |http| http.post("/echo", "{}", "Content-Type" => "application/json") }
  same(:post_of_bytes) { |http| http.post("/echo", (0..255).map(&:chr).join.b, "Content-Type" => "application/octet-stream") }
  same(:post_beyond_ascii) { |http| http.post("/echo", "Kölsch", "X-Name" => "Müller", "Content-Type" => "text/plain") }
  same(:post_beyond_ascii_of_bytes) { |http| http.post("/echo", "\xFF\xFE".b, "X-Name" => "Müller", "Content-Type" => "text/plain") }
  same(:big_post) { |http| http.post("/echo", "x" * 300_000, "Content-Type" => "text/plain") }
  same(:put) { |http| http.put("/echo", "put", "Content-Type" => "text/plain") }
  same(:patch) { |http| http.patch("/echo", "patch", "Content-Type" => "text/plain") }
  same(:delete) { |http| http.delete("/echo") }
  same(:options) { |http| http.options("/echo") }
  same(:trace) { |http| http.trace("/echo") }
  same(:propfind) { |http| http.propfind("/echo", "<x/>", "Content-Type" => "text/xml") }
  same(:an_own_method) { |http| http.send_request("PURGE", "/echo", nil, "X-One" => "1") }
  same(:post_that_is_closed) { |http| http.post("/empty", "x", "Content-Type" => "text/plain") }
  same(:post_that_is_reset) { |http| http.post("/reset", "x", "Content-Type" => "text/plain") }
  same(:several_in_a_session) { |http| http.start { Array.new(4) { |number| http.get("/echo?#{number}") } } }
  same(:a_session_over_a_closed_connection) { |http| http.start { [http.get("/close"), http.get("/plain"), http.get("/until-close"), http.get("/plain")] } }
  same(:a_request_of_a_uri) { |http, server| http.request(Net::HTTP::Get.new(URI(server.url("/echo?x=1")))) }
  same(:a_host_of_its_own) { |http| http.get("/echo", "Host" => "other.example") }
  same(:a_body_as_a_stream) do |http|
    request = Net::HTTP::Post.new("/echo", "Content-Type" => "text/plain", "Content-Length" => "6")
    request.body_stream = StringIO.new("stream")
    http.request(request)
  end
  same(:a_body_in_chunks) do |http|
    request = Net::HTTP::Post.new("/echo", "Content-Type" => "text/plain", "Transfer-Encoding" => "chunked")
    request.body_stream = StringIO.new("chunks" * 1000)
    http.request(request)
  end
  same(:a_stream_without_a_length) do |http|
    request = Net::HTTP::Post.new("/echo", "Content-Type" => "text/plain")
    request.body_stream = StringIO.new("stream")
    http.request(request)
  end
  same(:a_pipe_as_a_stream) do |http|
    reader, writer = IO.pipe
    writer.write("piped")
    writer.close
    request = Net::HTTP::Put.new("/echo", "Content-Type" => "text/plain", "Transfer-Encoding" => "chunked")
    request.body_stream = reader
    http.request(request)
  end
  same(:a_form) { |http| http.request(Net::HTTP::Post.new("/echo").tap { |request| request.set_form_data("a" => "1", "b" => "ü", "c" => %w[x y]) }) }
  same(:a_multipart_form) do |http|
    request = Net::HTTP::Post.new("/echo")
    request.set_form([["a", "1"], ["file", StringIO.new("content"), { filename: "a.txt", content_type: "text/plain" }]], "multipart/form-data", boundary: "line")
    http.request(request)
  end
  same(:a_multipart_form_in_chunks) do |http|
    request = Net::HTTP::Post.new("/echo", "Transfer-Encoding" => "chunked")
    request.set_form([["a", "1"], ["file", StringIO.new("content" * 100), { filename: "a.txt" }]], "multipart/form-data", boundary: "line")
    http.request(request)
  end
  same(:basic_authentication) { |http| http.request(Net::HTTP::Get.new("/echo").tap { |request| request.basic_auth("me", "secret") }) }
  same(:expecting_to_continue) do |http|
    http.continue_timeout = 5
    http.post("/echo", "after all", "Expect" => "100-continue", "Content-Type" => "text/plain")
  end
  same(:expecting_to_continue_in_vain) do |http|
    http.continue_timeout = 5
    http.post("/refuse", "never sent", "Expect" => "100-continue", "Content-Type" => "text/plain")
  end
  same(:a_read_that_takes_too_long) { |http| http.read_timeout = 0.5; http.max_retries = 0; http.get("/stall") }
  same(:a_body_that_takes_too_long) { |http| http.read_timeout = 0.5; http.max_retries = 0; http.get("/stall-body") }
  same(:repeated_after_a_time_out) { |http| http.read_timeout = 0.5; http.get("/stall") }
  same(:not_repeated_after_a_close) { |http| http.max_retries = 0; http.get("/empty") }
  same(:repeated_three_times) { |http| http.max_retries = 3; http.get("/reset") }
  %w[/until-close /plain /chunked].each do |path|
    same("broken_off_#{path}") { |http| http.request_get(path) { |response| response.read_body { break } } }
  end
  # Where it is broken off depends on how it comes, and not what comes before and after that.
  same(:broken_off_a_big_one) do |http|
    first = nil
    response = http.request_get("/big") { |incoming| incoming.read_body { |piece| break first = piece } }
    first + response.body == HostileServer::BIG
  end
  same(:broken_off_and_not_ignored) { |http| http.ignore_eof = false; http.request_get("/plain") { |response| response.read_body { break } } } if Net::HTTP.method_defined?(:ignore_eof=)
  same(:broken_out_of_the_request) { |http| http.request_get("/big") { |response| response.read_body && break } }
  same(:not_read_at_all) { |http| http.request_get("/big") { break } }
  same(:finished_within_the_body) { |http| http.start { http.request_get("/big") { |response| response.read_body { http.finish } } } }
  same(:finished_before_the_body) { |http| http.start { http.request_get("/big") { http.finish } } }
  same(:finished_after_the_body) { |http| http.start { http.request_get("/big") { |response| response.body && http.finish } } }
  same(:asked_within_a_response) { |http| http.start { http.request_get("/plain") { |response| response.body && http.get("/echo") } } }
  same(:a_time_out_of_the_caller_s) { |http| http.start { Timeout.timeout(0.5) { http.get("/stall-body") } } }
  same(:an_end_to_the_thread) { |http| Thread.new { http.request_get("/big") { |response| response.read_body { Thread.current.kill } } }.value.inspect }
  same(:left_within_the_body) { |http| catch(:left) { http.request_get("/big") { |response| response.read_body { throw :left, "left" } } } }
  same(:an_error_within_the_body) { |http| http.request_get("/big") { |response| response.read_body { raise ArgumentError, "mine" } } }
  same(:the_body_into_a_string) { |http| http.get("/plain", nil, +"before ") }
  same(:the_body_into_an_object) { |http| http.request_get("/big") { |response| response.read_body(+"") } }
  same(:the_body_read_twice) { |http| http.request_get("/plain") { |response| 2.times.map { response.read_body { nil } }.last } }
  same(:the_body_out_of_the_block) do |http|
    response = nil
    http.request_get("/plain") { |incoming| response = incoming }
    [response, response.body]
  end
  same(:closing_when_there_is_no_body) { |http| http.close_on_empty_response = true; http.start { [http.head("/plain"), http.get("/plain")] } }
  same(:a_line_break_in_the_path) { |http| http.get("/a\r\nb") }
  same(:a_line_break_in_a_field) { |http| http.get("/plain", "X-Bad" => "a\r\nb") }
  same(:an_empty_path) { |http| http.get("") }
  same(:a_path_without_a_slash) { |http| http.get("echo") }
  same(:started_twice) { |http| http.start { http.start } }
  same(:finished_before_it_was_started) { |http| http.finish }
  same(:started_and_finished) { |http| [http.started?, http.start.started?, http.get("/plain"), http.finish.inspect, http.started?] }
  same(:another_address) { |http| http.ipaddr = "127.0.0.1"; [http.get("/plain"), http.ipaddr] }
  same(:debug_output) do |http|
    out = +""
    http.set_debug_output(out)
    [http.get("/plain"), out.gsub(/^opening connection.*$|^<- .*$/, "")]
  end
  if Net::HTTP.method_defined?(:response_body_encoding=)
    # Before, it could not be asked for.
    same(:the_address_of_a_session) { |http| [http.ipaddr, http.start { [http.ipaddr, http.get("/plain"), http.ipaddr] }] }
    %w[/utf8 /html /plain /binary].each do |path|
      same("an_encoding_of_#{path}") { |http| http.response_body_encoding = true; http.get(path) }
      same("a_named_encoding_of_#{path}") { |http| http.response_body_encoding = "iso-8859-1"; http.get(path) }
    end
    same(:an_end_that_is_not_ignored) { |http| http.ignore_eof = false; http.get("/short") }
  end

  def test_nobody_listens
    closed = TCPServer.new("127.0.0.1", 0)
    port = closed.addr[1]
    closed.close
    outcomes = WAYS.to_h { |way| [way, by(way) { outcome { Net::HTTP.new("127.0.0.1", port).get("/") } }] }
    assert_equal Errno::ECONNREFUSED.name, outcomes[:plain][0]
    assert_alike outcomes
  end

  def test_a_name_without_an_address
    outcomes = WAYS.to_h { |way| [way, by(way) { outcome { Net::HTTP.new("nobody.invalid", 80).get("/") } }] }
    assert_includes outcomes[:plain][0], "Error"
    assert_alike outcomes
  end

  # What remains is read as if a chunk began there, and is none. The front frames it anew.
  def test_broken_off_within_a_chunk
    outcomes = %i[plain lent].map do |way|
      by(way) do
        run_once do |http, server|
          http.request_get("/half-chunk") do |response|
            response.read_body do
              server.go_on
              break
            end
          end
        end
      end
    end
    assert_equal ["EOFError", "end of file reached"], outcomes[0][0]
    assert_equal(*outcomes.map { |result, asked| [result, asked.size] })
  end

  private

  def compare(name, path: nil)
    # A body whose framing breaks is broken off by the front, whatever was wrong with it.
    broken_off = path == "/chunk-bad" && !name.start_with?("head")
    outcomes = WAYS.to_h do |way|
      [way, by(way) { run_once { |http, server| yield http, server } }]
    end
    refute_nil outcomes[:plain], name
    outcomes.each_value { |_, asked| asked.each { |request| request[1] = request[1].reject { |field, _| field.casecmp?("connection") }.sort } }
    # What comes from the front is HTTP/1.1.
    outcomes[:front][0] = as_http10(outcomes[:front][0]) if path&.start_with?("/http10")
    if broken_off
      assert_equal ["EOFError", "end of file reached"], outcomes[:front][0]
      outcomes[:front] = outcomes[:plain]
    end
    assert_alike outcomes
  end

  def as_http10(outcome)
    outcome.is_a?(Array) ? outcome.map { |part| as_http10(part) } : outcome.is_a?(Hash) ? outcome.merge(version: "1.0") : outcome
  end

  def assert_alike(outcomes)
    assert_equal outcomes[:plain], outcomes[:lent], "over lent connections"
    assert_equal outcomes[:plain], outcomes[:front], "through the front"
  end

  def run_once
    server = server()
    http = Net::HTTP.new("127.0.0.1", server.port)
    http.read_timeout = 5
    result = outcome { yield http, server }
    asked = server.asked.map { |request| [request.line, request.fields.dup, request.body] }
    [port_less(result, server.port), port_less(asked, server.port)]
  end

  def by(way)
    front if way == :front
    ENV["PACELINE_EGRESS"] = "off" unless way == :front
    Paceline::HTTP.install! unless way == :plain
    yield
  ensure
    Paceline::HTTP.uninstall!
    Paceline::HTTP.close
  end

  def outcome
    describe(yield)
  rescue Exception => e # rubocop:disable Lint/RescueException
    raise if e.is_a?(Minitest::Assertion) || e.is_a?(NoMemoryError) || e.is_a?(Interrupt)

    # A socket's class is not the same.
    [e.class.name, e.message.gsub(/#<\w+:/, "#<socket:").gsub(/0x\h+/, "0x")]
  end

  def describe(got)
    case got
    when Net::HTTPResponse
      body = got.body.is_a?(Net::ReadAdapter) ? :streamed : got.body
      { kind: got.class.name, version: got.http_version, code: got.code, message: got.message, fields: got.to_hash.except(*HOP), body: body, encoding: (body.encoding if body),
        decode: got.decode_content, uri: got.uri&.to_s }
    when Array then got.map { |one| describe(one) }
    else got.is_a?(Net::ReadAdapter) ? "adapter" : got
    end
  end

  def port_less(what, port)
    case what
    when String then what.b.gsub(":#{port}", ":PORT")
    when Array then what.map { |one| port_less(one, port) }
    when Hash then what.transform_values { |one| port_less(one, port) }
    else what
    end
  end
end
