# frozen_string_literal: true

require_relative "support/case"

# What a request's calls are counted as, and the time that is left for them.
class OutboundAccountTest < OutboundTest
  H = Paceline::HTTP

  def setup
    super
    @server = server
    @account = H::Account.open
  end

  def teardown
    H::Account.close
    super
  end

  def test_nothing_is_said_of_nothing
    assert_equal "", @account.to_s
    H::Account.close
    assert_nil H::Account.current
    H.get(@server.url("/plain"))
    assert_equal 0, @account.calls
  end

  def test_lent_connections
    3.times { H.get(@server.url("/plain")) }
    assert_equal [3, 1, 0], [@account.calls, @account.new_connections, @account.handshakes]
    assert_match(/\Aoutbound=3 new_conn=1 outbound_ms=\d+\z/, @account.to_s)
    assert_equal [3, 1, 0], @account.hosts["127.0.0.1"].to_a.values_at(0, 1, 4)
    assert_operator @account.milliseconds, :>, 0
  end

  def test_an_application_s_own_connections
    https = server(tls: :yes)
    3.times do
      http = Net::HTTP.new("localhost", https.port)
      http.use_ssl = true
      http.ca_file = Certificates.ca_file
      http.get("/plain")
    end
    assert_equal [3, 3, 3], [@account.calls, @account.new_connections, @account.handshakes]
    host = @account.hosts["localhost"]
    assert_equal [3, 3, true], [host.own, host.new_connections, host.own_milliseconds.positive?]
  end

  def test_handshakes_of_other_clients
    https = server(tls: :yes)
    socket = OpenSSL::SSL::SSLSocket.new(TCPSocket.new("localhost", https.port))
    socket.hostname = "localhost"
    socket.connect
    socket.close
    assert_equal [0, 1, 1, 1], [@account.calls, @account.new_connections, @account.handshakes, @account.hosts["localhost"].own]
  end

  def test_what_the_front_says
    front
    H.get(@server.url("/plain"))
    assert_equal [1, 1, 0], [@account.calls, @account.new_connections, @account.hosts["127.0.0.1"].own]
  end

  def test_all_at_once_take_their_time_once
    H.all { |calls| 3.times { calls.get @server.url("/stall"), timeout: 0.1 } }
    assert_equal 3, @account.calls
    assert_operator @account.milliseconds, :<, @account.hosts["127.0.0.1"].milliseconds
  end

  def test_threads_have_accounts_of_their_own
    Thread.new { H.get(@server.url("/plain")) }.join
    assert_equal 0, @account.calls
  end

  def test_a_deadline_ends_whatever_waits
    H.install!
    [-> { Net::HTTP.get(URI(@server.url("/stall"))) }, -> { H.get(@server.url("/stall-body")) }, -> { H.all { |calls| calls.get @server.url("/stall") }[0].value }].each do |call|
      assert_raises(H::DeadlineExceeded) { H.deadline(0.5, &call) }
    end
  end

  def test_a_deadline_that_is_over_makes_no_call
    H.deadline(-1) { assert_raises(H::DeadlineExceeded) { H.get(@server.url("/plain")) } }
    assert_empty @server.asked
    assert_nil H::Deadline.current
  end

  def test_an_earlier_deadline_holds
    H.deadline(0.5) { H.deadline(60) { assert_raises(H::DeadlineExceeded) { H.get(@server.url("/stall")) } } }
  end

  def test_a_deadline_holds_without_lent_connections
    H.deadline(0.5) { assert_raises(Net::ReadTimeout) { Net::HTTP.get(URI(@server.url("/stall"))) } }
  end

  def test_no_time_out_grows
    H.deadline(60) do
      error = assert_raises(Net::ReadTimeout) { H.get(@server.url("/stall"), timeout: 0.05, open_timeout: 10) }
      refute_instance_of H::DeadlineExceeded, error
    end
  end

  def test_the_front_is_told
    egress = front
    H.deadline(5) { H.get(@server.url("/plain"), open_timeout: 2) }
    members = egress.calls[0][2]
    assert_in_delta 5, members["deadline"], 1
    assert_equal 2.0, members["open_timeout"]
  end
end
