# frozen_string_literal: true

require "helper"
require "json"
require "net/http"
require "open-uri"
require "http/support/hostile_server"
require "http/support/tunnel"

# An upstream whose answers and handshakes take time.
class SlowUpstream < HostileServer
  # Seconds.
  attr_writer :handshake, :wait

  private

  # The wait begins when the client's part of the handshake is there: it may be counting only then.
  def serve(plain)
    plain.wait_readable && sleep(@handshake) if @handshake
    super
  end

  def answer(socket, asked, plain)
    sleep(@wait) if @wait
    super
  end

  def on_count(_) = with("200 OK", @mutex.synchronize { @count = (@count || 0) + 1 }.to_s)
  def on_many(_) = with("200 OK", "m" * 3_000_000)
end

# What the tests of outbound record and replay share: upstreams, and shadows, which are forked from the test.
class ShadowOutboundCase < Paceline::Test
  # What came of a shadow: the block's value, what it noted as writes, and its counts and the stand-in's report at the end.
  Outcome = Struct.new(:value, :notes, :counts, :report)
  # A shadow as Outbound sees it.
  Shadow = Struct.new(:root, :tmpdir, :notes) do
    def note_write(kind:, what:, at: nil)
      notes << [kind, what, at].compact
    end
  end

  def setup
    @started = []
    @before = ENV.to_h.slice("http_proxy", "no_proxy")
    @before.each_key { |name| ENV.delete(name) }
  end

  def teardown
    @started.each(&:stop)
    ENV.update(@before)
  end

  def upstream(**settings)
    SlowUpstream.new(**settings).tap { |one| @started << one }
  end

  # Runs the block in a shadow, which begins a request in `mode` with these recordings. What the block returns goes through Marshal.
  def shadow(mode, recordings = [], install: false, parallel: false)
    reading, writing = IO.pipe
    reading.binmode
    writing.binmode
    pid = fork do
      reading.close
      writing.write(Marshal.dump(live(mode, recordings, install, parallel) { |outbound| yield(outbound) }))
      writing.close
      exit!(0)
    end
    writing.close
    answer = reading.read
    Process.wait(pid)
    reading.close
    flunk("the shadow has ended without an answer") if answer.empty?
    outcome = Marshal.load(answer)
    outcome.is_a?(String) ? flunk(outcome) : outcome
  end

  # Records what the block does.
  def record(request: nil, **options, &block)
    outcome = shadow(:record, **options) do |outbound|
      if request
        outbound.request = request
        outbound.mode = :record
      end
      block.call(outbound)
      outbound.recordings
    end
    assert_empty outcome.notes
    JSON.parse(JSON.generate(outcome.value))
  end

  # The same calls with other times: of each connection and of each call, in microseconds.
  def timed(recordings, connect: 0, tls: 0, wait: 0, rest: 0)
    recordings.merge("connections" => recordings["connections"].map { |origin, *| [origin, connect, tls] },
                     "calls" => recordings["calls"].map { |key, bytes, first, _, _, closes| [key, bytes, first, wait, rest, closes] })
  end

  # A session for this upstream; over TLS it trusts the test's authority and no other.
  def http(server)
    url = URI(server.url)
    http = Net::HTTP.new(url.hostname, url.port)
    return http unless url.scheme == "https"

    http.use_ssl = true
    http.ca_file = Certificates.ca_file
    http
  end

  # What a response is to the application.
  def seen(response)
    [response.code, response.message, response.http_version, response.to_hash.reject { |name,| name == "connection" }, response.body]
  end

  # The value of the block, or the error's class and message.
  def outcome
    yield
  rescue StandardError => e
    [e.class.name, e.message]
  end

  # What all calls together were to take (microseconds), and how many connections they opened.
  def total(counts)
    counts.each_value.sum { |one| one.values_at("connect_us", "tls_us", "wait_us", "rest_us").sum }
  end

  def opened(counts)
    counts.each_value.sum { |one| one["connections"] }
  end

  private

  def live(mode, recordings, install, parallel)
    require "paceline/server/shadow/outbound"
    if install
      require "paceline/http"
      Paceline::HTTP.install!
    end
    outbound = Paceline::Server::Shadow::Outbound
    notes = []
    outbound.install(Shadow.new("/", "/tmp", notes))
    outbound.load(recordings)
    outbound.parallel = parallel
    outbound.mode = mode
    value = yield(outbound)
    Outcome.new(value, notes, outbound.counts, outbound.report).tap { outbound.close }
  rescue Exception => e # rubocop:disable Lint/RescueException
    e.full_message(highlight: false)
  end
end
