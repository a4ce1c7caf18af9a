# frozen_string_literal: true

require_relative "support/outbound_case"

# What a shadow records of outbound calls, and that a replay gives the same.
class ShadowOutboundTest < ShadowOutboundCase
  # Answers of all kinds, right and wrong.
  PATHS = %w[
    / /plain /utf8 /binary /nothing /big /chunked /chunked-big /chunk-broken /until-close /short /bad-status /bad-header /informational /no-content
    /not-modified /gzip /gzip-chunked /gzip-cut /deflate /redirect /http10 /http10-kept /lf /folded /cookies /close /hint /part /no-reason /teapot /error /missing
  ].freeze

  def test_replays_the_bytes_that_were_recorded
    server = upstream
    calls = -> { PATHS.map { |path| outcome { seen(http(server).get(path)) } } }
    real = calls.call
    recordings = record { calls.call }
    asked = server.asked.size
    [false, true].each do |install|
      replayed = shadow(:replay, recordings, install: install) { calls.call }
      PATHS.each_with_index { |path, number| assert_equal real[number], replayed.value[number], "#{path} with install: #{install}" }
      assert_empty replayed.notes
    end
    assert_equal 0, server.asked.size, "a replay has called the upstream, which was asked #{asked} times before"
  end

  def test_records_over_kept_connections_too
    server = upstream(tls: :yes)
    calls = -> { Array.new(3) { |number| seen(http(server).get("/echo?#{number}")) } }
    recordings = record(install: true) { calls.call }
    assert_equal 1, recordings["connections"].size
    [false, true].each do |install|
      replayed = shadow(:replay, recordings, install: install) { calls.call }
      assert_equal %w[/echo?0 /echo?1 /echo?2], (replayed.value.map { |one| one.last[/\AGET (\S+)/, 1] })
      assert_equal install ? 1 : 3, opened(replayed.counts)
    end
  end

  def test_records_times
    server = upstream(tls: :yes)
    server.handshake = 0.05
    server.wait = 0.02
    recordings = record { http(server).get("/plain") }
    assert_equal 1, recordings["connections"].size
    origin, connect, tls = recordings["connections"].first
    assert_equal "https://localhost:#{server.port}", origin
    assert_operator connect, :>, 0
    assert_operator tls, :>=, 50_000
    assert_operator recordings["calls"].first[3], :>=, 20_000
  end

  # The recordings of a new connection for each call say nothing of connections that are closed: that is asked for by the client.
  def test_control_and_trial_differ_by_the_times_of_connections
    server = upstream(tls: :yes)
    calls = -> { Array.new(5) { |number| seen(http(server).get("/echo?#{number}")) } }
    recordings = timed(record { calls.call }, connect: 3000, tls: 4000, wait: 2000, rest: 100)
    control = shadow(:replay, recordings) { calls.call }
    trial = shadow(:replay, recordings, install: true) { calls.call }
    assert_equal control.value, trial.value
    assert_equal [5, 1], [opened(control.counts), opened(trial.counts)]
    assert_equal 4 * 7000, total(control.counts) - total(trial.counts)
    assert_equal 5 * 2100 + 7000, total(trial.counts)
    assert_equal({ "connections" => 5, "handshakes" => 5, "answers" => 5, "answers_at_once" => 1 }, control.report)
    assert_equal({ "connections" => 1, "handshakes" => 1, "answers" => 5, "answers_at_once" => 1 }, trial.report)
  end

  # Bounds from below, and loose: what wakes up late goes to bed early (PunctualSleep). That no call takes longer is not the test's to say.
  def test_takes_the_recorded_times
    server = upstream(tls: :yes)
    recordings = timed(record { http(server).get("/big") }, connect: 30_000, tls: 40_000, wait: 50_000, rest: 60_000)
    replayed = shadow(:replay, recordings) do
      began = Process.clock_gettime(Process::CLOCK_MONOTONIC, :microsecond)
      session = http(server).start
      opened = Process.clock_gettime(Process::CLOCK_MONOTONIC, :microsecond)
      session.get("/big")
      [opened - began, Process.clock_gettime(Process::CLOCK_MONOTONIC, :microsecond) - opened]
    end
    assert_operator replayed.value[0], :>=, 60_000
    assert_operator replayed.value[1], :>=, 100_000
  end

  def test_keeps_a_connection_within_a_session
    server = upstream(tls: :yes)
    calls = -> { http(server).start { |session| Array.new(3) { |number| session.get("/echo?#{number}").body } } }
    replayed = shadow(:replay, record { calls.call }) { calls.call }
    assert_equal 1, opened(replayed.counts)
    assert_equal 3, replayed.report["answers"]
  end

  def test_a_connection_ends_where_the_recorded_server_ended_it
    server = upstream
    calls = -> { %w[/close /plain /until-close /plain].map { |path| http(server).get(path).body } }
    replayed = shadow(:replay, record { calls.call }, install: true) { calls.call }
    assert_equal ["close", "plain", "until the end", "plain"], replayed.value
    assert_equal 3, opened(replayed.counts)
  end

  def test_answers_to_the_same_call_are_given_in_order_and_then_repeated
    server = upstream
    call = -> { http(server).get("/count").body }
    recordings = record { 2.times { call.call } }
    replayed = shadow(:replay, recordings) do |outbound|
      first = Array.new(3) { call.call }
      outbound.mode = :replay
      [first, call.call]
    end
    assert_equal [%w[1 2 1], "1"], replayed.value
  end

  def test_a_request_is_given_its_own_recordings
    server = upstream
    call = -> { http(server).get("/count").body }
    recordings = %w[a b].map { |name| record(request: name) { call.call } }
    replayed = shadow(:replay, recordings) do |outbound|
      %w[b a c].map do |name|
        outbound.request = name
        outbound.mode = :replay
        call.call
      end
    end
    assert_equal %w[2 1 1], replayed.value
  end

  def test_the_shadow_that_recorded_can_replay_and_keeps_no_real_connection
    server = upstream(tls: :yes)
    call = -> { http(server).get("/plain").body }
    both = shadow(:record, install: true) do |outbound|
      real = call.call
      outbound.load(outbound.recordings)
      outbound.mode = :replay
      [real, call.call, call.call]
    end
    assert_equal %w[plain plain plain], both.value
    assert_equal 1, server.asked.size
    assert_equal 1, opened(both.counts)
  end

  def test_a_session_that_was_started_in_the_other_mode_gets_another_connection
    server = upstream
    both = shadow(:record) do |outbound|
      session = http(server).start
      real = session.get("/plain").body
      outbound.mode = :replay
      [real, session.get("/plain").body]
    end
    assert_equal %w[plain plain], both.value
    assert_equal 1, server.asked.size
  end

  def test_a_connection_that_is_not_the_shadows_is_not_used
    server = upstream
    session = http(server).start
    session.get("/plain")
    shadow(:record) { session.get("/plain") }
    assert_equal 2, server.connections
    session.get("/plain")
    assert_equal 2, server.connections, "the connection of the test was closed by its shadow"
    session.finish
  end

  def test_half_a_response_that_the_application_leaves
    server = upstream
    body = lambda do
      got = nil
      http(server).request_get("/big") { |response| response.read_body { |piece| break got = piece[0, 10] } }
      got
    end
    request = -> { http(server).start { |session| session.request_get("/big") { |response| response.read_body { |piece| return piece[0, 10] } } } }
    [body, request].product([false, true]).each do |call, install|
      replayed = shadow(:replay, record { call.call }, install: install) { call.call }
      assert_equal "0,1,2,3,4,", replayed.value
      assert_empty replayed.notes
    end
  end

  def test_a_get_with_a_body
    server = upstream
    call = lambda do |body|
      request = Net::HTTP::Get.new("/echo", "Content-Type" => "text/plain")
      http(server).request(request, body).body[/\w+\z/]
    end
    recordings = record { %w[one two].each(&call) }
    assert_equal %w[two one], shadow(:replay, recordings) { %w[two one].map(&call) }.value
  end

  def test_by_libraries
    require "faraday"
    server = upstream
    calls = lambda do
      connection = Faraday.new(server.url) { |faraday| faraday.adapter :net_http }
      [connection.get("/gzip").body, connection.head("/plain").status, URI.open(server.url("/redirect")).read, Net::HTTP.get(URI(server.url("/chunked")))]
    end
    recordings = record { calls.call }
    server.asked
    assert_equal ["packed " * 50, 200, "plain", "chunked"], shadow(:replay, recordings) { calls.call }.value
    assert_empty server.asked
  rescue LoadError
    skip("Faraday is not installed")
  end
end
