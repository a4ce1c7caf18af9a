# Debian's Apache with mod_auth_gssapi on the same cases: what each does. docs/single-sign-on.md has this table.
require "net/ntlm"
require_relative "../support/apache"
require_relative "../support/realm"

class SignOnPeerTest < Minitest::Test
  include Front
  include Realm

  def teardown
    super
    @apache&.remove
  end

  # Statuses and facts by case, ours and the peer's.
  def test_the_table
    flunk "#{Apache.missing.join(", ")} missing: bin/setup test" if Apache.missing.any?
    seen = cases
    shown = seen.map { |name, (ours, theirs)| format("%-62s %-34s %s", name, ours, theirs) }.join("\n")
    puts "\n#{format("%-62s %-34s %s", "case", "Paceline", "mod_auth_gssapi")}\n#{shown}" if ENV["SHOW_TABLE"]
    TABLE.each { |name, expected| assert_equal expected, seen[name], "#{name}\n#{shown}" }
    assert_equal TABLE.keys.sort, seen.keys.sort
  end

  # The same as the table in the docs.
  TABLE = {
    "a ticket" => ["200", "200"],
    "the server proves itself" => %w[yes yes],
    "no ticket" => ["401 Negotiate", "401 Negotiate"],
    "the next request of the same browser" => ["200", "401, and a ticket again"],
    "the next request, with its sessions on" => ["200", "200"],
    "the session's cookie" => ["a random id", "the name, sealed"],
    "that cookie after a restart of the server" => ["200", "401"],
    "a token that was used before" => %w[401 401],
    "the log says so" => %w[yes yes],
    "clocks 10 minutes apart" => %w[401 401],
    "a ticket for a service that the keytab has not" => %w[401 401],
    "the log names the service that is missing" => %w[yes yes],
    "a damaged token" => ["401", "401"],
    "no Base64 at all" => ["401", "401"],
    "NTLM, with gss-ntlmssp installed" => ["401", "its process crashes"],
    "a token made for another TLS connection" => ["401 (bindings = \"require\")", "200"],
    "the keytab is away" => %w[503 401],
    "a new key in the keytab" => ["200", "200"],
    "700 tokens that are nonsense" => ["401, then 429", "401"],
  }.freeze

  private

  def cases
    kerberos(options: 'bindings = "require"')
    certificates = ["web.pem", "web.key"].map { |name| File.join(@server.dir, name) }
    @der = File.join(@server.dir, "web.der")
    File.binwrite(@der, OpenSSL::X509::Certificate.new(File.read(certificates[0])).to_der)
    other = File.join(@server.dir, "other.der")
    File.binwrite(other, OpenSSL::X509::Certificate.new(authority.issue(HOST).first).to_der)
    @apache = Apache.new(@kdc, @keytab, certificate: certificates).start
    seen = {}
    both = ->(&ask) { [@server.port, @apache.port].map(&ask) }
    fresh = -> { token("bindings=#{@der}") }
    seen["a ticket"] = both.() { |port| at(port, fresh.()).code }
    seen["the server proves itself"] = both.() { |port| at(port, fresh.())["www-authenticate"].to_s.match?(/\ANegotiate \S{20}/) ? "yes" : "no" }
    seen["no ticket"] = both.() { |port| at(port).then { |answer| "#{answer.code} #{answer["www-authenticate"]}" } }
    seen["the next request of the same browser"] = both.() { |port| next_request(port, fresh) }
    replay(seen, both, fresh)
    seen["clocks 10 minutes apart"] = both.() { |port| at(port, Open3.capture2e(@kdc.env, *Faketime.command("+10m"), TICKETS, "token", HOST, "bindings=#{@der}").first.chomp).code }
    seen["a damaged token"] = both.() { |port| at(port, damaged(fresh.())).code }
    seen["no Base64 at all"] = both.() { |port| at(port, "!!!").code }
    seen["NTLM, with gss-ntlmssp installed"] = both.() { |port| ntlm(port) }
    ours, theirs = both.() { |port| at(port, token("bindings=#{other}")).code }
    seen["a token made for another TLS connection"] = ["#{ours} (bindings = \"require\")", theirs]
    keys(seen, both, fresh)
    wrong_service(seen)
    # Nobody at this address is heard for a second after it.
    seen["700 tokens that are nonsense"] = both.() { |port| nonsense(port) }
    sessions(seen, certificates, fresh)
    seen
  end

  # One request on a connection of its own.
  def at(port, token = nil, fields = {})
    Browser.new("https://#{HOST}:#{port}", authority: @authority_file).get("/", fields.merge(token ? negotiate(token) : {}))
  end

  def ntlm(port)
    at(port, Net::NTLM::Client.new("alice", "x").init_context.encode64).code
  rescue OpenSSL::SSL::SSLError, EOFError, SystemCallError
    eventually("the crash in the log") { @apache.log.include?("exit signal Segmentation fault") }
    "its process crashes"
  end

  def next_request(port, fresh)
    browser = Browser.new("https://#{HOST}:#{port}", authority: @authority_file, ticket: fresh)
    2.times { browser.get("/") }
    browser.visits.size == 3 ? browser.visits.last.last : "401, and a ticket again"
  end

  def replay(seen, both, fresh)
    seen["a token that was used before"] = both.() do |port|
      token = fresh.()
      at(port, token)
      at(port, token).code
    end
    @server.wait_for(/\breplay\b/)
    seen["the log says so"] = ["yes", @apache.log.match?(/replay/i) ? "yes" : "no"]
  end

  def damaged(token)
    bytes = token.unpack1("m0")
    bytes.setbyte(bytes.bytesize / 2, bytes.getbyte(bytes.bytesize / 2) ^ 255)
    [bytes].pack("m0")
  end

  def keys(seen, both, fresh)
    files = [@keytab, @apache.keytab]
    @kdc.export(Realm::SERVICE)
    FileUtils.cp(*files)
    @kdc.sign_in("alice")
    seen["a new key in the keytab"] = both.() { |port| at(port, fresh.()).code }
    files.each { |file| FileUtils.mv(file, "#{file}.away") }
    seen["the keytab is away"] = both.() { |port| at(port, fresh.()).code }
    files.each { |file| FileUtils.mv("#{file}.away", file) }
  end

  def nonsense(port)
    request = "GET / HTTP/1.1\r\nHost: #{HOST}\r\nAuthorization: Negotiate #{["nonsense"].pack("m0")}\r\n\r\n"
    statuses = []
    while statuses.size < 700
      authority.connect(port, HOST) do |io|
        # Apache closes a connection after a hundred.
        90.times do
          io.write(request)
          statuses << Wire.response(io).status
        end
      end
    end
    statuses.uniq.join(", then ")
  end

  def wrong_service(seen)
    @kdc.service("HTTP/other.example.test", keytab: "other.keytab")
    [@keytab, @apache.keytab].each { |file| File.binwrite(file, File.binread(@kdc.file("other.keytab"))) }
    seen["a ticket for a service that the keytab has not"] = [@server.port, @apache.port].map { |port| at(port, token("bindings=#{@der}")).code }
    @server.wait_for(/wrong-service.*HTTP\/web\.example\.test/)
    seen["the log names the service that is missing"] = ["yes", @apache.log.include?("HTTP/web.example.test") ? "yes" : "no"]
  end

  # mod_auth_gssapi with mod_session_cookie, as its manual has it.
  def sessions(seen, certificates, _fresh)
    @apache.remove
    @server.kill
    FileUtils.rm_f(@keytab)
    @kdc.export(Realm::SERVICE)
    @kdc.sign_in("alice")
    kerberos
    @apache = Apache.new(@kdc, @keytab, certificate: certificates, options: ["GssapiUseSessions On", "Session On", "SessionCookieName gssapi_session path=/;httponly;secure;"]).start
    browsers = [@server.port, @apache.port].map { |port| Browser.new("https://#{HOST}:#{port}", authority: @authority_file, ticket: -> { token }) }
    browsers.each { |browser| 2.times { browser.get("/") } }
    seen["the next request, with its sessions on"] = browsers.map { |browser| browser.visits.size == 3 ? browser.visits.last.last : "401" }
    cookies = browsers.map { |browser| browser.cookies.map { |pair| pair.join("=") }.join("; ") }
    seen["the session's cookie"] = [cookies[0].match?(/=[\w-]{43}\z/) ? "a random id" : cookies[0], cookies[1].match?(/MagBearerToken=/) ? "the name, sealed" : cookies[1]]
    @server.kill
    serve_front(@server.dir, env: @kdc.env)
    @apache.stop
    @apache.start
    ports = [@server.port, @apache.port]
    seen["that cookie after a restart of the server"] = ports.zip(cookies).map { |port, cookie| at(port, nil, "Cookie" => cookie).code }
  end
end
