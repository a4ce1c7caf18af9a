# People with tickets of a real KDC (MIT) and curl, before an acceptor: who is let in, and what is said to those who are not.
require "minitest/autorun"
require "base64"
require "net/http"
require "net/ntlm"
require_relative "../../gem/test/support/hang_watch"
require_relative "support/kdc"
require_relative "support/protected_page"

class KerberosTest < Minitest::Test
  include ProtectedPage

  SERVICE = "HTTP/#{HOST}"

  # One KDC for all, with a folder's worth of keys for each test.
  def self.kdc
    @kdc ||= Kdc.new.tap do |kdc|
      Minitest.after_run { kdc.remove }
      kdc.person("alice")
      kdc.start
    end
  end

  def setup
    skip_without_programs
    @kdc = self.class.kdc
    FileUtils.rm_f([@kdc.file("cc"), @kdc.file("http.keytab")])
    @keytab = @kdc.service(SERVICE)
    @kdc.sign_in("alice")
  end

  def teardown = stop_pages

  def test_a_ticket_signs_in_and_the_server_proves_itself
    serve(@keytab)
    response = visit
    assert_signed_in "alice", response
    assert_equal "alice of EXAMPLE.TEST by kerberos, bound: false, expires, groups: ", response.body
    assert_match(/\ANegotiate \S{20,}\z/, response.challenges.last, "the server's own token")
  end

  def test_without_a_ticket_there_is_only_the_offer
    serve(@keytab)
    response = visit(env: { "KRB5CCNAME" => "FILE:#{@kdc.file("none")}" })
    assert_equal [401, ["Negotiate"]], [response.status, response.challenges]
  end

  def test_a_token_is_accepted_once
    serve(@keytab)
    token = token()
    assert_signed_in "alice", send_token(token)
    assert_refused "replay", send_token(token)
  end

  def test_a_restarted_server_still_knows_what_was_used
    serve(@keytab)
    token = token()
    assert_signed_in "alice", send_token(token)
    serve(@keytab)
    assert_refused "replay", send_token(token)
  end

  def test_clocks_that_differ
    serve(@keytab, clock: "+10m")
    assert_refused "clock-skew", visit
  end

  def test_a_ticket_that_has_expired
    @kdc.stop
    @kdc.start(clock: "-3h")
    @kdc.sign_in("alice", "-l", "1h", clock: "-3h")
    @kdc.run(*Faketime.command("-3h"), "kvno", SERVICE)
    @kdc.pretend_that_tickets_last
    serve(@keytab)
    assert_refused "expired", visit
  ensure
    @kdc.stop
    @kdc.start
  end

  def test_an_old_ticket_works_while_the_keytab_has_the_old_key
    serve(@keytab)
    assert_signed_in "alice", visit
    @kdc.export(SERVICE)
    assert_signed_in "alice", visit
    @kdc.sign_in("alice")
    assert_signed_in "alice", visit
  end

  def test_a_keytab_without_the_old_key_says_so
    serve(@keytab)
    assert_signed_in "alice", visit
    FileUtils.rm(@keytab)
    @kdc.export(SERVICE)
    response = visit
    assert_refused "wrong-key-version", response
    assert_match(/HTTP\/web\.example\.test@EXAMPLE\.TEST \(key version \d+, aes256.*keytab has key version \d+ of that service/, response.body)
    @kdc.sign_in("alice")
    assert_signed_in "alice", visit
  end

  def test_a_key_that_was_changed_and_not_exported
    serve(@keytab)
    @kdc.admin("cpw -randkey #{SERVICE}")
    assert_refused "wrong-key-version", visit
  end

  def test_another_key_under_the_same_version
    version = @kdc.run("kvno", SERVICE)[/kvno = (\d+)/, 1]
    other = @kdc.file("other.keytab")
    FileUtils.rm_f(other)
    @kdc.run("ktutil", stdin: <<~COMMANDS)
      addent -password -p #{SERVICE} -k #{version} -e aes256-cts-hmac-sha1-96
      guess
      wkt #{other}
    COMMANDS
    serve(other)
    assert_refused "wrong-key", visit
  end

  def test_the_key_of_another_service
    other = @kdc.service("HTTP/other.example.test", keytab: "other-service.keytab")
    serve(other)
    response = visit
    assert_refused "wrong-service", response
    assert_includes response.body, "HTTP/web.example.test@EXAMPLE.TEST"
    assert_includes response.body, "HTTP/other.example.test@EXAMPLE.TEST"
  end

  def test_a_keytab_with_more_than_the_service_that_is_allowed
    serve(@keytab, "service=HTTP/intranet.example.test")
    assert_refused "service-not-allowed", visit
  end

  def test_a_realm_that_may_not_sign_in
    serve(@keytab, "realm=OTHER.TEST")
    assert_refused "realm-not-allowed", visit
  end

  def test_a_keytab_that_goes_and_comes_back
    serve(@keytab)
    FileUtils.mv(@keytab, "#{@keytab}.away")
    assert_refused "keytab", visit, status: 503
    FileUtils.mv("#{@keytab}.away", @keytab)
    assert_signed_in "alice", visit
  end

  def test_a_keytab_that_this_account_may_not_read
    FileUtils.chmod(0o000, @keytab)
    within = Process.uid.zero? ? %w[setpriv --reuid=65534 --regid=65534 --clear-groups] : []
    assert_match(/Bad keytab: the keytab .* may not be read by this account\n +Give it to the account/, check(@keytab, HOST, within: within))
  end

  def test_a_ticket_is_bound_to_its_connection
    certificate, other = %w[a b].map { |name| certificate(name) }
    serve(@keytab, "bindings=#{certificate}")
    response = send_token(token("bindings=#{certificate}"))
    assert_signed_in "alice", response
    assert_includes response.body, "bound: true"
    assert_refused "bindings-differ", send_token(token("bindings=#{other}"))
    assert_refused "bindings-missing", send_token(token)
  end

  def test_ntlm_is_refused_unless_it_is_allowed
    serve(@keytab)
    assert_refused "ntlm", send_token(Base64.strict_encode64("NTLMSSP\0\x01\0\0\0" + "\0" * 24))
  end

  def test_ntlm_that_is_allowed_takes_two_legs_on_one_connection
    serve(@keytab, "ntlm", "realm=EXAMPLE.TEST", env: ntlm_users)
    assert_equal [401, 200, "alice of EXAMPLE by ntlm, bound: false, never expires, groups: "], by_ntlm("alice", Kdc::PASSWORD)
    assert_equal [401, 401], by_ntlm("alice", "wrong").first(2)
  end

  def test_ntlm_says_who_a_connection_is_and_no_other_one
    serve(@keytab, "ntlm", "realm=EXAMPLE.TEST", env: ntlm_users)
    assert_match(/\Amalformed: .* that this connection has not begun/, by_ntlm("alice", Kdc::PASSWORD, one_connection: false).last)
  end

  def test_ntlm_of_another_domain
    serve(@keytab, "ntlm", "realm=OTHER.TEST", env: ntlm_users)
    assert_match(/\Arealm-not-allowed: the realm EXAMPLE /, by_ntlm("alice", Kdc::PASSWORD).last)
  end

  def test_tickets_are_accepted_beside_ntlm
    serve(@keytab, "ntlm", env: ntlm_users)
    assert_signed_in "alice", visit
  end

  def test_what_is_damaged_is_refused_and_harms_nobody
    serve(@keytab)
    whole = Base64.strict_decode64(token)
    random = Random.new(7)
    40.times do
      damaged = whole.dup
      3.times { damaged.setbyte(random.rand(damaged.bytesize), random.rand(256)) }
      response = send_token(Base64.strict_encode64(damaged.byteslice(0, 1 + random.rand(damaged.bytesize))))
      assert_equal 401, response.status, response.body
    end
    assert_signed_in "alice", send_token(Base64.strict_encode64(whole))
  end

  def test_many_at_once
    serve(@keytab)
    tokens = Array.new(24) { token }
    responses = tokens.map { |token| Thread.new { send_token(token) } }.map(&:value)
    responses.each { |response| assert_signed_in "alice", response }
  end

  def test_the_check_says_what_is_right_and_what_is_not
    output = check(@keytab, HOST)
    assert_includes output, "Good keytab: HTTP/web.example.test@EXAMPLE.TEST: key version"
    assert_match(/Good clock: 127\.0\.0\.1:\d+, a KDC of EXAMPLE\.TEST: the clocks differ by less than 2 s$/, output)
    assert_includes output, "Good ticket: your ticket signs you in as alice of EXAMPLE.TEST, with 0 groups"
    assert_includes output, "https://web.example.test"
    FileUtils.chmod(0o644, @keytab)
    assert_match(/Bad keytab: .* can be read by others than its owner \(mode 644\)/, check(@keytab, HOST))
    assert_match(/Bad keytab: there is no key of HTTP\/www.example.test/, check(@keytab, "www.example.test"))
  end

  def test_the_check_measures_clocks
    output = check(@keytab, HOST, within: Faketime.command("+1h"))
    assert_match(/Bad clock: .*this machine's clock differs by -36\d\d s$/, output)
  end

  private

  def skip_without_programs
    missing = Kdc.missing + %w[curl openssl].reject { |name| system("command -v #{name} >/dev/null") }
    flunk "#{missing.join(", ")} missing: bin/setup test" if missing.any?
  end

  def check(keytab, host, within: []) = @kdc.run(*within, BIN, "check", keytab, host)

  def certificate(name)
    path = @kdc.file("#{name}.der")
    @kdc.run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "/dev/null",
      "-subj", "/CN=#{name}", "-outform", "DER", "-out", path)
    path
  end

  # What gss-ntlmssp asks in place of a domain's controller.
  def ntlm_users
    users = @kdc.file("ntlm-users")
    File.write(users, "EXAMPLE:alice:#{Kdc::PASSWORD}\n", perm: 0o600)
    { "NTLM_USER_FILE" => users }
  end

  # Signs in by bare NTLM under Negotiate, as Windows does. The result: each status, then the last body.
  def by_ntlm(name, password, one_connection: true)
    client = Net::NTLM::Client.new(name, password, domain: "EXAMPLE")
    http = Net::HTTP.start("127.0.0.1", @port)
    first = http.get("/", "Authorization" => "Negotiate #{client.init_context.encode64}")
    answer = client.init_context(first["WWW-Authenticate"].split[1])
    http = Net::HTTP.start("127.0.0.1", @port) unless one_connection
    last = http.get("/", "Authorization" => "Negotiate #{answer.encode64}")
    [Integer(first.code), Integer(last.code), last.body.chomp]
  end
end
