# frozen_string_literal: true

require_relative "support/outbound_case"

# What a shadow does not do: it sends nothing but GET and HEAD, records no more than it may, and calls nobody in a replay.
class ShadowOutboundRefusalTest < ShadowOutboundCase
  def test_other_methods_are_refused
    server = upstream
    calls = lambda do
      [outcome { http(server).post("/echo?secret", "x") }, outcome { http(server).delete("/echo") }, outcome { Net::HTTP.post_form(URI(server.url("/echo")), a: 1) }]
    end
    [[:record, false], [:replay, false], [:record, true], [:replay, true]].each do |mode, install|
      refused = shadow(mode, install: install) { calls.call }
      assert_equal ["Paceline::Server::Shadow::Outbound::Refused"], refused.value.map(&:first).uniq
      assert_equal [["outbound", "POST #{server.url("/echo")} is no GET or HEAD"], ["outbound", "DELETE #{server.url("/echo")} is no GET or HEAD"],
                    ["outbound", "POST #{server.url("/echo")} is no GET or HEAD"]], refused.notes
    end
    assert_empty server.asked
  end

  def test_a_call_that_was_not_recorded_is_refused
    server = upstream
    recordings = record { http(server).get("/plain") }
    refused = shadow(:replay, recordings) do
      http(server).get("/other?token=secret")
    rescue Errno::ECONNREFUSED
      "refused"
    end
    assert_equal "refused", refused.value
    assert_equal [["outbound", "GET #{server.url("/other")} was not recorded"]], refused.notes
    assert_equal 1, server.connections
  end

  def test_calls_that_fail_while_they_are_recorded_are_noted
    gone = upstream.tap(&:refuse)
    server = upstream
    failed = shadow(:record) do |outbound|
      failures = [outcome { http(gone).get("/") }, outcome { http(server).get("/empty") }].map(&:first)
      [failures, outbound.recordings["calls"]]
    end
    assert_equal [%w[Errno::ECONNREFUSED EOFError], []], failed.value
    assert_equal [["outbound", "a call to http://127.0.0.1:#{gone.port} failed: Errno::ECONNREFUSED"],
                  ["outbound", "a call to http://127.0.0.1:#{server.port} failed: EOFError"]], failed.notes
  end

  def test_a_response_that_takes_too_long_is_noted
    server = upstream
    failed = shadow(:record) do |outbound|
      session = http(server)
      session.read_timeout = 0.05
      session.max_retries = 0
      [outcome { session.get("/stall-body") }.first, outbound.recordings["calls"]]
    end
    assert_equal ["Net::ReadTimeout", []], failed.value
    assert_equal [["outbound", "a call to http://127.0.0.1:#{server.port} failed: Net::ReadTimeout"]], failed.notes
  end

  def test_an_authority_that_the_application_does_not_trust
    server = upstream(tls: :yes)
    failed = shadow(:record) do
      session = http(server)
      session.ca_file = nil
      outcome { session.get("/plain") }.first
    end
    assert_equal "OpenSSL::SSL::SSLError", failed.value
    assert_equal 1, failed.notes.size
    assert_empty server.asked
  end

  def test_more_than_can_be_recorded
    server = upstream
    full = shadow(:record) do |outbound|
      # The responses so far: 3, 6, 9 MB.
      sizes = Array.new(3) { http(server).get("/many").body.bytesize }
      late = outcome { http(server).get("/plain") }.first
      dumped = outbound.recordings["calls"]
      outbound.mode = :record
      http(server).get("/plain")
      [sizes, late, dumped, outbound.recordings["calls"].size]
    end
    assert_equal [[3_000_000] * 3, "Paceline::Server::Shadow::Outbound::Refused", [], 1], full.value
    assert_equal ["an outbound call can't be recorded: the responses have more than 8 MB",
                  "GET #{server.url("/plain")} can't be recorded: the responses have more than 8 MB"], full.notes.map(&:last)
  end

  # Neither net/http nor openssl are loaded by Outbound. When the application loads them, they are caught; Paceline::HTTP, too.
  def test_libraries_that_are_loaded_later
    server = upstream(tls: :yes)
    recordings = record { http(server).get("/plain") }
    script = <<~RUBY
      require "paceline/server/shadow/outbound"
      outbound = Paceline::Server::Shadow::Outbound
      notes = []
      shadow = Object.new
      shadow.define_singleton_method(:note_write) { |kind:, what:, at: nil| notes << what }
      outbound.install(shadow)
      abort("loaded too early") if $LOADED_FEATURES.any? { |file| file.match?(%r{net/http|openssl|json|digest}) } || defined?(Net)
      require "json"
      outbound.load(JSON.parse($stdin.read))
      call = lambda do |kind|
        http = Net::HTTP.new("localhost", #{server.port})
        http.use_ssl = true
        http.ca_file = #{Certificates.ca_file.inspect}
        http.request(kind.new("/plain")).body
      end
      require "net/http"
      stock = [call.(Net::HTTP::Get), (call.(Net::HTTP::Post) rescue "refused")]
      require "paceline/http"
      Paceline::HTTP.install!
      lent = [call.(Net::HTTP::Get), call.(Net::HTTP::Get), outbound.counts.values[0]["connections"], (call.(Net::HTTP::Post) rescue "refused")]
      puts JSON.generate([stock, lent, notes.size])
      outbound.close
    RUBY
    server.asked
    out, status = Open3.capture2e(RbConfig.ruby, "-I#{File.expand_path("../../../lib", __dir__)}", "-e", script, stdin_data: JSON.generate(recordings))
    assert_predicate status, :success?, out
    assert_equal [%w[plain refused], ["plain", "plain", 2, "refused"], 2], JSON.parse(out), out
    assert_empty server.asked
  end
end
