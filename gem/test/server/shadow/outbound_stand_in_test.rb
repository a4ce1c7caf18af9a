# frozen_string_literal: true

require_relative "support/outbound_case"

# The process that answers in a replay: TLS, proxies, calls at once, and what it takes from its shadow.
class ShadowOutboundStandInTest < ShadowOutboundCase
  # Microseconds in which all of a few calls have begun.
  LONG = 1_000_000
  def test_calls_of_threads_are_answered_at_once
    server = upstream(tls: :yes)
    recordings = timed(record { 4.times { |number| http(server).get("/echo?#{number}") } }, wait: LONG)
    [false, true].each do |install|
      replayed = shadow(:replay, recordings, install: install) do
        Array.new(4) { |number| Thread.new { http(server).get("/echo?#{number}").body[/\d/] } }.map(&:value)
      end
      assert_equal %w[0 1 2 3], replayed.value
      assert_equal 4, replayed.report["answers_at_once"]
    end
  end

  def test_all_and_in_parallel_are_answered_at_once
    server = upstream(tls: :yes)
    recordings = timed(record { 4.times { |number| http(server).get("/echo?#{number}") } }, wait: LONG)
    all = shadow(:replay, recordings, install: true) do
      Paceline::HTTP.all { |calls| 4.times { |number| calls.get(server.url("/echo?#{number}"), ca_file: Certificates.ca_file) } }.map { |one| one.body[/\d/] }
    end
    assert_equal %w[0 1 2 3], all.value
    assert_equal 4, all.report["answers_at_once"]

    require "faraday"
    in_parallel = shadow(:replay, recordings, install: true) do
      require "paceline/http/faraday"
      connection = Faraday.new(server.url, ssl: { ca_file: Certificates.ca_file }) { |faraday| faraday.adapter :paceline }
      responses = []
      connection.in_parallel { 4.times { |number| responses << connection.get("/echo?#{number}") { |req| req.headers["Accept"] = "*/*" } } }
      responses.map { |one| one.body[/\d/] }
    end
    assert_equal %w[0 1 2 3], in_parallel.value
    assert_equal 4, in_parallel.report["answers_at_once"]
  end

  # What-if: 15 calls one after another take as long as the longest of them.
  def test_calls_in_a_row_as_if_they_were_made_at_once
    server = upstream(tls: :yes)
    calls = -> { Array.new(15) { |number| http(server).get("/echo?#{number}").body } }
    recordings = timed(record { calls.call }, connect: 300, tls: 400, wait: 200, rest: 100)
    # The ninth is the longest.
    recordings["calls"][8][3] = 5000
    serial = shadow(:replay, recordings) { calls.call }
    assert_equal 15 * 700 + 14 * 300 + 5100, total(serial.counts)
    at_once = shadow(:replay, recordings, parallel: true) { calls.call }
    assert_equal 700 + 5100, total(at_once.counts)
    assert_equal serial.value, at_once.value
    assert_equal [15, 15], [serial, at_once].map { |one| opened(one.counts) }

    lent = shadow(:replay, recordings, parallel: true, install: true) do |outbound|
      calls.call
      first = outbound.counts
      outbound.mode = :replay
      calls.call
      [first, outbound.counts]
    end
    # The connection is opened by the first call, which is shorter than the ninth in any case; the next request finds it open.
    assert_equal([5100, 5100], lent.value.map { |counts| total(counts) })
    assert_equal([1, 0], lent.value.map { |counts| opened(counts) })
  end

  def test_the_application_trusts_what_it_trusted
    server = upstream(tls: :yes)
    recordings = record { http(server).get("/plain") }
    settings = {
      file: ->(session) { session.ca_file = Certificates.ca_file }, nothing: ->(session) { session.ca_file = nil },
      store: lambda { |session|
        session.ca_file = nil
        session.cert_store = OpenSSL::X509::Store.new.tap { |store| store.add_cert(Certificates.authority.certificate) }
      },
      none: ->(session) { session.verify_mode = OpenSSL::SSL::VERIFY_NONE }, old: ->(session) { session.max_version = :TLS1_2 }
    }
    settings.to_a.product([false, true]).each do |(name, setting), install|
      replayed = shadow(:replay, recordings, install: install) { 2.times.map { http(server).tap(&setting).get("/plain").body } }
      assert_equal %w[plain plain], replayed.value, "#{name} with install: #{install}"
    end
  end

  def test_contexts_that_were_made_before_the_shadow
    return if apart

    # The test's own process is the preloader here.
    server = upstream(tls: :yes)
    recordings = record { http(server).get("/plain") }
    require "paceline/http"
    Paceline::HTTP.install!
    ENV["PACELINE_EGRESS"] = "off"
    http(server).get("/plain")
    replayed = shadow(:replay, recordings) { http(server).get("/plain").body }
    assert_equal "plain", replayed.value
  end

  def test_the_name_is_checked
    server = upstream(tls: :yes)
    recordings = record { http(server).get("/plain") }
    [false, true].each do |install|
      replayed = shadow(:replay, recordings, install: install) do
        stand_in = Paceline::Server::Shadow::Outbound::StandIn
        stand_in.prepend(Module.new do
          def introduce(socket, connection)
            connection.origin.instance_variable_set(:@host, "elsewhere.test")
            super
          end
        end)
        outcome { http(server).get("/plain") }
      end
      assert_equal "OpenSSL::SSL::SSLError", replayed.value[0]
      assert_match(/hostname|does not match/, replayed.value[1])
    end
  end

  def test_addresses_in_place_of_names
    server = upstream(tls: :yes)
    call = lambda do
      session = Net::HTTP.new("127.0.0.1", server.port)
      session.use_ssl = true
      session.ca_file = Certificates.ca_file
      session.get("/plain").body
    end
    assert_equal "plain", shadow(:replay, record { call.call }) { call.call }.value
  end

  def test_through_a_proxy
    proxy = Tunnel.new.tap { |one| @started << one }
    server = upstream(tls: :yes)
    [false, true].each do |install|
      call = lambda do
        session = Net::HTTP.new("localhost", server.port, "127.0.0.1", proxy.port)
        session.use_ssl = true
        session.ca_file = Certificates.ca_file
        session.get("/plain").body
      end
      recordings = record(install: install) { call.call }
      assert_equal 1, proxy.asked.size
      proxy.asked.clear
      replayed = shadow(:replay, recordings, install: install) { call.call }
      assert_equal "plain", replayed.value
      assert_empty proxy.asked
    end
  end

  def test_a_plain_call_through_a_proxy
    proxy = upstream
    call = -> { Net::HTTP.new("shop.test", 80, "127.0.0.1", proxy.port).get("/plain").code }
    recordings = record { call.call }
    assert_equal(["GET http://shop.test:80/plain"], recordings["calls"].map(&:first))
    assert_equal ["GET http://shop.test/plain HTTP/1.1"], proxy.asked.map(&:line)
    assert_equal "200", shadow(:replay, recordings) { call.call }.value
    assert_empty proxy.asked
  end

  # It is a program of its own, with nothing of the application's.
  def test_has_nothing_of_the_shadow
    server = upstream
    recordings = record { http(server).get("/plain") }
    in_tmpdir("kept" => "") do |dir|
      replayed = shadow(:replay, recordings) do |outbound|
        at_exit { File.write(File.join(dir, "handler"), "ran") }
        kept = File.open(File.join(dir, "kept"))
        kept.close_on_exec = false
        http(server).get("/plain")
        pid = outbound.instance_variable_get(:@stand_in).pid
        # The connection may be closed while they are listed.
        open = Dir.children("/proc/#{pid}/fd").to_h { |number| [number.to_i, (File.readlink("/proc/#{pid}/fd/#{number}") rescue nil)] }.compact
        outbound.close
        [open, File.exist?(File.join(dir, "handler"))]
      end
      descriptors, handler = replayed.value
      refute handler
      assert_equal [0, 1, 2, 3], descriptors.keys.sort.first(4)
      assert_equal %w[/dev/null /dev/null], descriptors.values_at(1, 2)
      assert_empty descriptors.values.grep(/#{dir}/)
      # Beside the control socket and the one that listens: Ruby's own, and the connection if it is not closed yet.
      assert_operator descriptors.values.grep(/\Asocket:/).size, :<=, 3
      assert_empty descriptors.values.grep(/\Apipe:/) unless RUBY_VERSION < "3.2"
    end
  end

  # The port is open to all users of the machine, and an answer may be about a visitor.
  def test_gives_nothing_to_another_process
    server = upstream
    recordings = record { http(server).get("/plain") }
    replayed = shadow(:replay, recordings) do |outbound|
      outbound.send(:stand_in)
      port = outbound.instance_variable_get(:@stand_in).port
      # As the shadow's first connections, but for the secret.
      others = (1..5).map do |id|
        TCPSocket.new("127.0.0.1", port).tap { |socket| socket.write(["", id, 0, 4].pack("a16L>CC"), "host", "GET / HTTP/1.1\r\n\r\n") }
      end
      [http(server).get("/plain").body, others.map { |socket| (socket.read rescue "") }]
    end
    assert_equal ["plain", [""] * 5], replayed.value
  end

  def test_ends_with_the_shadow
    server = upstream
    recordings = record { http(server).get("/plain") }
    reading, writing = IO.pipe
    shadow = fork do
      reading.close
      live(:replay, recordings, false, false) do |outbound|
        http(server).get("/plain")
        writing.puts(outbound.instance_variable_get(:@stand_in).pid)
        sleep
      end
    end
    writing.close
    stand_in = reading.gets.to_i
    assert File.exist?("/proc/#{stand_in}")
    Process.kill(:KILL, shadow)
    Process.wait(shadow)
    Thread.pass until ended?(stand_in)
    reading.close
  end

  private

  # Its parent may reap it later.
  def ended?(pid)
    File.read("/proc/#{pid}/stat")[/\) (\w)/, 1] == "Z"
  rescue SystemCallError
    true
  end
end
