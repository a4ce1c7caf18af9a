# frozen_string_literal: true

require "helper"

# Each kind of body and each rule of a response, over a real worker; once plain and once under Rack::Lint.
module ResponseRules
  THIS = File.expand_path(__FILE__)
  F = Paceline::Server::Frames

  def setup
    @front, @worker, @rack = Paceline::Test.shared(lint?)
    get("/events")
  end

  def channel = @worker.channels[1]

  def get(path, env = {}, query: "", **options)
    channel.send(F::REQUEST, FakeFront.request({ "PATH_INFO" => path, "QUERY_STRING" => query }.merge(env), **options))
    FakeFront.answer(channel)
  end

  # Asks PATH for a body that waits; answers what came behind the first piece.
  def waiting(path)
    Dir.mktmpdir do |dir|
      file = File.join(dir, "seen")
      env = { "PATH_INFO" => path, "QUERY_STRING" => file }
      channel.send(F::REQUEST, FakeFront.request(env))
      assert_equal F::HEAD, channel.read.type
      first = channel.read
      assert_equal [F::CHUNK, "a"], [first.type, first.payload]
      File.write(file, "")
      FakeFront.answer(channel).tap { |answer| answer.chunks.unshift("a") }
    end
  end

  def events = get("/events").body.split("\n")

  # Lint hides to_ary and the like, so that frames may differ under it.
  def assert_types(expected, answer)
    assert_equal(expected, answer.types) unless lint?
  end

  def test_array_in_one_frame
    answer = get("/array")
    assert_equal [200, "onetwo"], [answer.status, answer.body]
    assert_equal [%w[content-type text/plain]], answer.headers
    assert_types [F::RESPONSE], answer
    assert_equal 2, answer.counters.chunks
    assert_operator answer.counters.started, :<=, answer.counters.finished
    assert_operator answer.counters.allocated, :<, 100_000
  end

  def test_many_strings_in_one_frame
    answer = get("/many")
    assert_equal Array.new(1300) { |n| "<#{n}>" }.join, answer.body
    assert_types [F::RESPONSE], answer
  end

  def test_empty_body
    assert_equal [200, ""], get("/empty").to_a.values_at(0, 2)
  end

  def test_strings_of_different_encodings
    assert_equal "\u00fc".b + "\xff".b + "\u20ac".b, get("/mixed").body
  end

  def test_known_body_is_one_frame_and_closed_once
    answer = get("/known")
    assert_equal "ab", answer.body
    assert_types [F::RESPONSE, F::IDLE], answer
    assert_equal 1, events.count("close")
  end

  def test_enumerable_that_comes_at_once_is_one_frame
    answer = get("/each")
    assert_equal [200, "ab", 2], [answer.status, answer.body, answer.counters.chunks]
    assert_equal [F::RESPONSE, F::IDLE], answer.types
    assert_equal %w[each close], events
  end

  # The front takes the coding off, by the header: it has to have both, also when the body is whole.
  def test_body_that_the_app_has_chunked_keeps_its_coding_and_its_header
    %w[/chunked-by-app /chunked-array].each do |path|
      answer = get(path)
      assert_equal "3\r\nabc\r\n0\r\n\r\n", answer.body, path
      assert_includes answer.headers, %w[transfer-encoding chunked], path
    end
  end

  # The body waits for a file that the test makes when it has seen the first piece.
  def test_piece_of_a_body_that_waits_is_sent
    answer = waiting("/each-waits")
    assert_equal %w[a b], answer.chunks
    assert_equal [F::CHUNK, F::END_, F::IDLE], answer.types
    assert_equal %w[each close], events
  end

  def test_failure_behind_what_was_sent_breaks_off
    answer = waiting("/each-waits-and-fails")
    assert_equal [F::ABORT, F::IDLE], answer.types.last(2)
    assert_equal %w[each close], events
  end

  def test_pieces_that_are_no_strings
    return if lint?
    assert_equal "a1", get("/each-not-strings").body
  end

  def test_events_and_what_asks_for_it_go_out_piece_by_piece
    %w[/events-stream /unbuffered].each do |path|
      answer = get(path)
      assert_equal %w[a b], answer.chunks
      assert_equal [F::HEAD, F::CHUNK, F::CHUNK, F::END_, F::IDLE], answer.types
    end
    events
  end

  def test_enumerable_keeps_its_content_length
    assert_equal ["2"], get("/each-length").header("content-length")
  end

  def test_large_chunk_is_cut
    answer = get("/each-big")
    assert_equal 200_000, answer.body.bytesize
    assert_operator answer.chunks.map(&:bytesize).max, :<=, F::MAX_CHUNK
  end

  def test_failure_before_anything_was_sent_is_told
    answer = get("/each-fails")
    assert_equal [F::ERROR, F::IDLE], answer.types
    assert_equal "broken in the middle", answer.error["message"]
    assert_equal %w[each close], events
  end

  def test_file_is_sent_by_the_front
    answer = get("/file", query: THIS)
    return assert_includes(["from each", ""], answer.body) if lint? && answer.file.nil?
    assert_equal THIS, answer.file
    assert_equal [F::HEAD, F::FILE, F::END_, F::IDLE], answer.types
    assert_equal %w[close], events
  end

  def test_missing_file_falls_back_to_each
    return if lint? # Lint itself refuses a path that does not exist
    answer = get("/file", query: "/nonexistent/file")
    assert_equal "from each", answer.body
    assert_equal %w[each close], events
  end

  def test_large_known_body_in_pieces
    answer = get("/large")
    assert_equal 1_200_000, answer.body.bytesize
    assert_operator answer.chunks.map(&:bytesize).max, :<=, 256 * 1024
  end

  def test_head_iterates_nothing_and_closes
    answer = get("/each-length", { "REQUEST_METHOD" => "HEAD" })
    assert_equal [200, ""], [answer.status, answer.body]
    assert_equal ["2"], answer.header("content-length")
    assert_equal %w[close], events
  end

  def test_statuses_without_body
    assert_equal [204, ""], get("/204").to_a.values_at(0, 2)
    assert_equal %w[close], events
    assert_equal [304, ""], get("/304").to_a.values_at(0, 2)
    assert_equal %w[close], events
  end

  def test_callable_body
    return if lint? && @rack < 3
    answer = get("/callable", body: "question")
    assert_equal "got: question", answer.body
    assert_equal [F::HEAD, F::CHUNK, F::END_], answer.types.first(3) # it flushes before it closes
    assert_equal ["closed true GET"], events
  end

  def test_arrays_and_joined_values_become_a_pair_each
    assert_equal %w[a b], get("/headers").header("x-array")
    assert_equal ["\u00fc".b], get("/headers").header("x-umlaut")
  end

  def test_bad_header_name_is_refused
    answer = get("/header-name")
    assert_equal F::ERROR, answer.types.first
    assert_match(/x y/, answer.error["message"])
    assert_includes events, "close" unless lint?
  end

  def test_bad_header_value_is_refused
    answer = get("/header-value")
    assert_equal F::ERROR, answer.types.first
    assert_match(/x-a/, answer.error["message"]) unless lint?
  end

  def test_rack_headers_stay_in_the_worker
    assert_empty get("/header-rack").header("rack.private")
  end

  def test_statuses_are_made_integers
    return if lint?
    assert_equal 201, get("/status", query: "text").status
    assert_equal "Paceline::InvalidResponse", get("/status").error["class"]
  end

  def test_body_of_no_kind_is_refused
    return if lint? # whose own body has an each
    assert_equal F::ERROR, get("/string").types.first
  end

  def test_exception_is_an_error_frame
    answer = get("/raise")
    assert_equal [F::ERROR], answer.types
    assert_equal "ArgumentError", answer.error["class"]
    assert_equal "wrongwords", answer.error["message"]
    assert_equal File.join(Paceline::Test::APPS, "bodies", "config.ru"), answer.error["file"]
    assert_match(/\A\d+\z/, answer.error["line"])
  end

  def test_exit_in_the_app_is_an_error_like_another
    assert_equal "SystemExit", get("/exit").error["class"]
    assert_equal 200, get("/array").status
  end

  def test_early_hints
    answer = get("/hints")
    assert_equal [{ "link" => "</a.css>; rel=preload" }], answer.hints
    assert_equal "hinted", answer.body
  end

  def test_callbacks_run_after_the_response
    answer = get("/callbacks")
    assert_predicate answer, :busy?
    told = events
    assert_includes told, "after_reply"
    return if @rack < 3
    assert_equal %w[second first], told.grep(/200 Hash NilClass/).map { |line| line[/\w+/] }
  end

  def test_callbacks_run_after_a_failure
    assert_predicate get("/callbacks-fail"), :busy?
    told = events
    assert_includes told, "after_reply"
    return if @rack < 3
    assert_equal %w[second first], told.grep(/nil NilClass RuntimeError/).map { |line| line[/\w+/] }
  end

  def test_spans_travel_with_the_counters
    name, total, count = get("/spans").counters.spans.first
    assert_equal %w[render 2], [name, count]
    assert_match(/\A\d+\z/, total)
    assert_empty get("/array").counters.spans
  end

  def test_when_a_page_changes_is_a_header
    assert_equal "1795780800.250, 1795780900.000", get("/changes").headers.to_h["paceline-changes-at"]
    assert_nil get("/array").headers.to_h["paceline-changes-at"]
  end

  def test_gone_client_raises_at_the_next_write
    channel.send(F::REQUEST, FakeFront.request({ "PATH_INFO" => "/endless" }))
    assert_equal F::HEAD, channel.read.type
    assert_equal F::CHUNK, channel.read.type
    channel.cancel
    frame = channel.read until frame&.type == F::ABORT
    assert_equal F::IDLE, channel.read.type
    assert_equal ["raised Paceline::ClientGone", "close"], events
  end

  def test_late_cancel_hurts_nobody
    get("/array")
    channel.cancel
    assert_equal 200, get("/array").status
  end

  def test_partial_hijack
    channel.send(F::REQUEST, FakeFront.request({ "PATH_INFO" => "/hijack-partial" }))
    consumed = channel
    answer = FakeFront.answer(consumed)
    assert_equal [200, true], [answer.status, answer.raw]
    assert_equal [%w[content-type text/plain]], answer.headers
    assert_equal "mine", consumed.io.read
    @worker.await(F::CHANNEL)
    assert_equal 200, get("/array").status
  ensure
    consumed&.close
  end

  def test_hijacker_that_raises_ends_the_stream
    channel.send(F::REQUEST, FakeFront.request({ "PATH_INFO" => "/hijack-fails" }))
    consumed = channel
    assert FakeFront.answer(consumed).raw
    assert_equal "", consumed.io.read
    @worker.await(F::CHANNEL)
    assert_equal 200, get("/array").status
  ensure
    consumed&.close
  end

  def test_partial_hijack_only_where_it_is_offered
    answer = get("/hijack-partial", { "paceline.hijack" => "" })
    assert_includes [F::RESPONSE, F::HEAD, F::ERROR], answer.types.first
    refute answer.raw
  end

  def test_upgrade_with_a_callable_body
    return if lint?
    channel.send(F::REQUEST, FakeFront.request({ "PATH_INFO" => "/upgrade" }))
    consumed = channel
    answer = FakeFront.answer(consumed)
    assert_equal [101, true], [answer.status, answer.raw]
    consumed.io.write("abc")
    assert_equal "cba", consumed.io.read
    @worker.await(F::CHANNEL)
    assert_equal 200, get("/array").status
  ensure
    consumed&.close
  end

  # What `each` yields before and after it is nobody's: the next channel is the next request's.
  def test_nothing_follows_a_hijack_within_the_body
    channel.send(F::REQUEST, FakeFront.request({ "PATH_INFO" => "/hijack-in-each" }))
    consumed = channel
    assert_equal [F::HIJACK], FakeFront.answer(consumed).types
    assert_equal "", consumed.io.read
    @worker.await(F::CHANNEL)
    assert_equal [200, "onetwo"], get("/array").to_a.values_at(0, 2)
  ensure
    consumed&.close
  end

  def test_no_hijack_after_the_response
    assert_equal [F::RESPONSE, F::IDLE], get("/hijack-in-after-reply").types
    assert_equal ["the response has begun: a request can only be hijacked before that"], events
    assert_equal 200, get("/array").status
  end

  def test_full_hijack
    channel.send(F::REQUEST, FakeFront.request({ "PATH_INFO" => "/hijack" }))
    consumed = channel
    assert_equal [F::HIJACK], FakeFront.answer(consumed).types
    @worker.await(F::CHANNEL)
    refute_same consumed, channel
    assert_equal "hello ", consumed.io.readpartial(100)
    consumed.io.write("shout")
    assert_equal "SHOUT", consumed.io.read
    assert_equal 200, get("/array").status
  ensure
    consumed&.close
  end
end

class ResponseTest < Paceline::Test
  include ResponseRules
  def lint? = false
end

class LintedResponseTest < Paceline::Test
  include ResponseRules
  def lint? = true
end
