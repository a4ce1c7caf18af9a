# `paceline sso check`: each usual mistake is found, and explained.
require "etc"
require_relative "../support/ldap"
require_relative "../support/provider"
require_relative "../support/realm"

class SignOnCheckTest < Minitest::Test
  include Front
  include Realm
  include Ldap

  def test_all_that_is_right
    text, status = check(kerberos_table, "--no-visit")
    assert_equal 0, status, text
    assert_includes text, "site    "
    assert_match(/^ok      keytab: HTTP\/web\.example\.test@EXAMPLE\.TEST: key version \d+ \(aes256/, text)
    assert_match(/^ok      clock: 127\.0\.0\.1:\d+, a KDC of EXAMPLE\.TEST: the clocks differ by less than 2 s$/, text)
    assert_match(/^ok      name: web\.example\.test is its own canonical name/, text)
    assert_match(/^ok      ticket: your ticket signs you in as alice of EXAMPLE\.TEST/, text)
    assert_equal "no problems found\n", text.lines.last
  end

  def test_each_browser_gets_its_exact_line
    text, = check(kerberos_table, "--no-visit")
    assert_includes text, '{ "AuthServerAllowlist": "web.example.test" }'
    assert_includes text, 'defaults write com.google.Chrome AuthServerAllowlist "web.example.test"'
    assert_match(/^browser Firefox: about:config, network\.negotiate-auth\.trusted-uris.*\n        https:\/\/web\.example\.test$/, text)
    assert_includes text, "curl --negotiate -u : https://web.example.test/"
  end

  # 1. The keytab is for another name than the one that browsers open.
  def test_a_wrong_service
    other = @kdc.service("HTTP/other.example.test", keytab: "other.keytab")
    text, status = check(kerberos_table(other), "--no-visit", HOST)
    assert_equal 1, status, text
    assert_wrong text, "keytab", /there is no key of HTTP\/web\.example\.test, which browsers ask a ticket for/
    assert_wrong text, "ticket", /wrong service|whose key is not in the keytab/
  end

  def test_a_service_that_the_kdc_does_not_know
    text, status = check(kerberos_table, "--no-visit", "new.example.test", hosts: "127.0.0.1 new.example.test")
    assert_equal 1, status, text
    assert_wrong text, "ticket", /the KDC knows no service HTTP\/new\.example\.test/
  end

  # 2. The service's key was changed, and the keytab was not.
  def test_a_key_that_was_changed
    @kdc.admin("cpw -randkey #{Realm::SERVICE}")
    text, status = check(kerberos_table, "--no-visit")
    assert_equal 1, status, text
    assert_wrong text, "ticket", /key version \d+.*keytab has key version \d+/
    assert_includes text, "-> The key was changed and the keytab was not. Export the keytab again"
  end

  # 3. The clocks.
  def test_a_clock_that_is_wrong
    text, status = check(kerberos_table, "--no-visit", within: Faketime.command("+1h"))
    assert_equal 1, status, text
    assert_wrong text, "clock", /this machine's clock differs by -36\d\d s$/
    assert_includes text, "NTP"
  end

  # 4. The name is an alias: browsers ask for a ticket of the canonical one.
  def test_an_alias
    text, status = check(kerberos_table, "--no-visit", hosts: "127.0.0.1 farm7.example.test web.example.test")
    assert_equal 1, status, text
    assert_wrong text, "name", /web\.example\.test is an alias of farm7\.example\.test: Chromium and curl ask a ticket for HTTP\/farm7\.example\.test/
    assert_match(/-> Add HTTP\/farm7\.example\.test to the keytab/, text)
  end

  def test_a_name_without_an_address_and_an_address_without_a_name
    text, = check(kerberos_table, "--no-visit", "nowhere.example.test")
    assert_wrong text, "name", /nowhere\.example\.test has no address on this machine/
    text, = check(kerberos_table, "--no-visit", "127.0.0.1")
    assert_wrong text, "name", /127\.0\.0\.1 is an address: browsers send no ticket to one/
  end

  # 6. Something in front takes the fields of the login away.
  def test_a_proxy_in_front
    site = server_behind(->(head) { head.gsub(/^WWW-Authenticate:.*\r\n/i, "") })
    text, status = check(kerberos_table, *site)
    assert_equal 1, status, text
    assert_wrong text, "visit", /answers 401 and asks for no ticket/
    assert_includes text, "-> A proxy in front removes WWW-Authenticate"
  end

  def test_a_proxy_that_removes_the_ticket
    site = server_behind(->(head) { head }, ->(head) { head.gsub(/^Authorization:.*\r\n/i, "") })
    text, = check(kerberos_table, *site)
    assert_wrong text, "visit", /does not take your ticket/
    assert_includes text, "a proxy in front removes Authorization"
  end

  def test_bindings_behind_a_proxy
    text, = check(kerberos_table(@keytab, 'bindings = "require"'), "--no-visit", tls: false)
    assert_wrong text, "proxy", /no address of this server is https: TLS ends elsewhere, and nobody can sign in/
  end

  def test_a_visit_through_nothing
    front("[[sso]]\n#{kerberos_line}\notherwise = \"refuse\"\n", env: @kdc.env)
    text, status = check_in(@server.dir, "--url", "https://#{HOST}:#{@server.port}/", "--connect", "127.0.0.1", "--ca-file", @authority_file, HOST)
    assert_match(/^ok      visit: https:\/\/web\.example\.test:\d+\/ asks for a ticket$/, text)
    assert_match(/^ok      visit: https:\/\/web\.example\.test:\d+\/ signs you in by your ticket, and proves itself$/, text)
    assert_equal 0, status, text
  end

  # 7. http in place of https.
  def test_http
    text, = check(kerberos_table, "--no-visit", before: 'bind = ["tcp://0.0.0.0:0"]', tls: false)
    assert_wrong text, "https", /people reach this server by http/
    text, = check(kerberos_table, "--no-visit", tls: false)
    assert_match(/^warning https: no address of this server is https/, text)
  end

  # 8. The server's account can't read it.
  def test_a_keytab_that_the_server_can_not_read
    return puts("NOT RUN: another account's rights: only root can try them") unless Process.uid.zero?
    File.chmod(0o600, @keytab)
    text, status = check(kerberos_table, "--no-visit", "--user", "nobody")
    assert_equal 1, status, text
    assert_wrong text, "keytab", /http\.keytab can't be read by nobody/
    assert_match(/-> Give it to that account and to nobody else: chown, chmod 600/, text)
    text, = check(kerberos_table, "--no-visit", "--user", "no-such-account")
    assert_wrong text, "account", /no user `no-such-account`/
  end

  # Nobody has to be named if the server runs: its account is that of its control socket.
  def test_a_keytab_that_the_running_server_can_not_read
    return puts("NOT RUN: a server of another account: only root can start it") unless Process.uid.zero?
    # The settings are root's, as in /etc; what the server writes is in folders of its own.
    dir = app({ "config.ru" => APP, "paceline.toml" => "control = \"tmp/paceline.sock\"\n#{kerberos_table}", "state/x" => "", "tmp/x" => "" })
    File.chmod(0o755, dir)
    FileUtils.chown("nobody", nil, [*authority.write(dir, "web", HOST), File.join(dir, "state"), File.join(dir, "tmp")])
    serve_front(dir, env: @kdc.env.merge("HOME" => dir, "PACELINE_USER" => nil), within: %w[setpriv --reuid=65534 --regid=65534 --clear-groups])
    text, status = check_in(dir, "--no-visit", user: false)
    assert_equal 1, status, text
    assert_wrong text, "keytab", /http\.keytab can't be read by nobody, as whom the server runs/
    @server.wait_for(/nobody can sign in: the keytab .* may not be read by this account/)
  end

  def test_settings_of_another_account_are_read_as_that_account
    return puts("NOT RUN: settings of another account: only root reads them with other rights") unless Process.uid.zero?
    dir = app({ "config.ru" => APP, "paceline.toml" => kerberos_table })
    FileUtils.chown_R("nobody", nil, dir)
    text, status = check_in(dir, "--no-visit")
    assert_equal 2, status, text
    assert_match(/"sso" can't be set here: the file belongs to nobody/, text)
    assert_match(/^paceline: run it as the account that the server runs as: sudo -u NAME paceline sso check$/, text)
  end

  def test_a_keytab_that_everybody_can_read
    File.chmod(0o644, @keytab)
    text, = check(kerberos_table, "--no-visit")
    assert_wrong text, "keytab", /can be read by others than its owner \(mode 644\)/
  end

  def test_a_keytab_that_is_none
    File.binwrite(@keytab, "nonsense")
    text, = check(kerberos_table, "--no-visit")
    assert_wrong text, "keytab", /is no keytab/
    FileUtils.rm(@keytab)
    text, = check(kerberos_table, "--no-visit")
    assert_wrong text, "keytab", /does not exist/
  end

  # 9. The realm.
  def test_a_wrong_realm
    text, = check(kerberos_table(@keytab, 'realms = ["example.test"]'), "--no-visit")
    assert_wrong text, "realm", /realms has "example\.test", and the keytab's realm is "EXAMPLE\.TEST"/
    assert_includes text, "capitals count"
    text, = check(kerberos_table(@keytab, 'realms = ["OTHER.TEST"]'), "--no-visit")
    assert_wrong text, "realm", /no realm of .*OTHER\.TEST.* is one of the keytab, which has EXAMPLE\.TEST/
    assert_wrong text, "ticket", /OTHER\.TEST|EXAMPLE\.TEST/
  end

  # 10. Encryption that the KDC uses, and the keytab has not.
  def test_a_missing_encryption_type
    partial = @kdc.file("partial.keytab")
    FileUtils.rm_f(partial)
    @kdc.admin("ktadd -k #{partial} -norandkey #{Realm::SERVICE}")
    slots = @kdc.run("ktutil", stdin: "rkt #{partial}\nlist -e\n").scan(/^\s+(\d+)\s+\d+ .*aes256/).flatten
    FileUtils.rm_f("#{partial}.new")
    @kdc.run("ktutil", stdin: "rkt #{partial}\n#{slots.reverse.map { |slot| "delent #{slot}\n" }.join}wkt #{partial}.new\n")
    text, = check(kerberos_table("#{partial}.new"), "--no-visit")
    assert_wrong text, "ticket", /keytab has only aes128/
    assert_includes text, "Export the keytab again with all encryption types"
  end

  def test_no_ticket_of_ones_own_is_no_mistake
    FileUtils.rm_f(@kdc.file("cc"))
    text, status = check(kerberos_table, "--no-visit")
    assert_equal 0, status, text
    assert_match(/^warning ticket: no ticket for HTTP\/web\.example\.test to try.*\n        -> Run `kinit`/, text)
  end

  # Groups that nobody is in.
  def test_groups_that_no_ticket_has
    text, = check("[[sso]]\n#{kerberos_line}\notherwise = \"refuse\"\nallow = [\"group:staff\"]\n", "--no-visit")
    assert_match(/^warning allow: allow names staff, and the groups of a ticket are numbers/, text)
  end

  def test_a_directory
    good = "[[sso]]\nbasic = #{ldap_table}\n"
    text, status = check(good, "--no-visit", HOST)
    assert_equal 0, status, text
    assert_match(/^ok      ldap: ldaps:\/\/localhost:\d+ answers \(Ldap\), lets the account in and searches dc=example,dc=test/, text)
    {
      good.sub(Slapd::BASE, "dc=nowhere") => /there is no dc=nowhere|refuses a search/,
      good.sub("cn=admin", "cn=nobody") => /does not let the account cn=nobody,dc=example,dc=test in/,
      good.sub(/ca_file = "[^"]+", /, "") => /certificate|UnknownIssuer/,
      good.sub(/:\d+"/, ":1\"") => /no directory answers/,
      good.sub(/password_file = "[^"]+"/, 'password_file = "/nonexistent"') => /nonexistent/,
    }.each do |toml, told|
      text, status = check(toml, "--no-visit", HOST)
      assert_equal 1, status, text
      assert_wrong text, "ldap", told
    end
  end

  def test_an_issuer
    flunk "#{OpenidProvider.missing.join} missing: bin/setup test" if OpenidProvider.missing.any?
    provider = OpenidProvider.new
    provider.site = "https://#{HOST}"
    secret = @kdc.file("client-secret")
    File.write(secret, "secret-of-shop\n", perm: 0o600)
    toml = "[[sso]]\noidc = { issuer = \"#{provider.issuer}\", client_id = \"shop\", client_secret_file = \"#{secret}\" }\n"
    text, status = check(toml, "--no-visit", HOST)
    assert_equal 0, status, text
    assert_includes text, "ok      issuer: #{provider.issuer} answers, and names itself so"
    assert_includes text, "ok      callback: https://#{HOST}/.paceline/sso/callback"
    text, status = check(toml.sub('"shop"', '"unknown"'), "--no-visit", HOST)
    assert_equal 1, status, text
    assert_wrong text, "callback", /register the client/
    text, = check(toml, "--no-visit", "another.example.test")
    assert_wrong text, "callback", /redirect URI https:\/\/another\.example\.test/
    text, = check(toml, "--no-visit", HOST, within: Faketime.command("+1h"))
    assert_wrong text, "clock", /this machine is 3\d\d\d s ahead of the provider/
    text, = check(toml.sub(provider.issuer, "http://127.0.0.1:1"), "--no-visit", HOST)
    assert_match(/^WRONG   (reachable|issuer): /, text)
    File.chmod(0o644, secret)
    text, = check(toml, "--no-visit", HOST)
    assert_wrong text, "issuer", /others may read or write it \(mode 644\)/
  ensure
    provider&.stop
  end

  # What the server says when it starts needs no network.
  def test_the_start_of_a_server_says_what_files_show
    File.binwrite(@keytab, File.binread(@kdc.service("nfs/web.example.test", keytab: "nfs.keytab")))
    front("[[sso]]\n#{kerberos_line}\notherwise = \"refuse\"\nallow = [\"group:staff\"]\n", env: @kdc.env, tls: false)
    ["has no key of an HTTP service", "the groups of a ticket are numbers", "[[sso]] without https"].each { |told| @server.wait_for(Regexp.new(Regexp.escape(told))) }
  end

  def test_the_check_of_the_whole_configuration_says_it_too
    dir = app({ "config.ru" => APP, "paceline.toml" => kerberos_table(@keytab, 'realms = ["example.test"]') })
    text, = Open3.capture2e(@kdc.env.merge(AS_ROOT).merge("PACELINE_GEM_DIR" => File.join(CHECKOUT, "gem")), BIN, "check", chdir: dir)
    assert_match(/^warning site .*: \[\[sso\]\] path = "\/\*": realm: realms has "example\.test".* Write realms = \["EXAMPLE\.TEST"\]: capitals count\.$/, text)
  end

  def test_settings_without_any_are_said_so
    text, status = check("", "--no-visit")
    assert_equal [2, "paceline: no [[sso]] in these settings: add one to paceline.toml; docs/single-sign-on.md has examples\n"], [status, text]
  end

  private

  def kerberos_line(keytab = @keytab, more = nil) = "kerberos = { keytab = \"#{keytab}\"#{", #{more}" if more} }"
  def kerberos_table(keytab = @keytab, more = nil) = "[[sso]]\n#{kerberos_line(keytab, more)}\notherwise = \"refuse\"\n"

  # [what it printed, exit status], in a folder with these settings. `hosts`: /etc/hosts, as root can have its own.
  def check(toml, *arguments, tls: true, before: "", **options)
    dir = app({ "config.ru" => APP })
    if tls
      authority.write(dir, "web", HOST, "localhost")
      before = "#{before}\nbind = [\"ssl://127.0.0.1:0?cert=web.pem&key=web.key\"]"
    end
    write(dir, "paceline.toml" => "#{before}\n#{toml}")
    check_in(dir, *arguments, **options)
  end

  # `user: false`: without a word of the server's account.
  def check_in(dir, *arguments, within: [], hosts: "127.0.0.1 #{HOST}", user: true)
    arguments = ["--user", "root", *arguments] if user && Process.uid.zero? && !arguments.include?("--user")
    if Process.uid.zero?
      file = File.join(dir, "hosts")
      File.write(file, "127.0.0.1 localhost\n#{hosts}\n")
      within = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', file, *within]
    elsif hosts != "127.0.0.1 #{HOST}"
      skip "NOT RUN: names of its own: only root can have an /etc/hosts of its own"
    end
    text, status = Open3.capture2e(@kdc.env.merge(AS_ROOT).merge("PACELINE_CONTROL" => nil), *within, BIN, "sso", "check", *arguments, chdir: dir)
    [text.force_encoding("UTF-8"), status.exitstatus]
  end

  # The server behind a proxy over TLS that changes the heads of answers and requests: the options of a visit to it.
  def server_behind(answers, requests = ->(head) { head })
    front("[[sso]]\n#{kerberos_line}\notherwise = \"refuse\"\n", env: @kdc.env, tls: false)
    certificate, key = authority.write(@server.dir, "proxy", HOST)
    context = OpenSSL::SSL::SSLContext.new
    context.cert = OpenSSL::X509::Certificate.new(File.read(certificate))
    context.key = OpenSSL::PKey.read(File.read(key))
    listener = TCPServer.new("127.0.0.1", 0)
    (@sockets ||= []) << listener
    Thread.new do
      loop do
        client = OpenSSL::SSL::SSLSocket.new(listener.accept, context).tap(&:accept)
        head = client.gets("\r\n\r\n") or next client.close
        behind = TCPSocket.new("127.0.0.1", @server.port)
        behind.write(requests.call(head).sub("\r\n\r\n", "\r\nConnection: close\r\nX-Forwarded-Proto: https\r\n\r\n"))
        answer, body = behind.read.split("\r\n\r\n", 2)
        client.write("#{answers.call("#{answer}\r\n")}\r\n#{body}")
        client.close
      rescue OpenSSL::SSL::SSLError, SystemCallError
        nil
      rescue IOError
        break
      end
    end.report_on_exception = false
    ["--url", "https://#{HOST}:#{listener.addr[1]}/", "--connect", "127.0.0.1", "--ca-file", authority.file(@server.dir), HOST]
  end

  def assert_wrong(text, subject, told)
    lines = text.lines.grep(/\AWRONG   #{subject}: /)
    assert lines.any? { |line| line.match?(told) }, "no WRONG #{subject} like #{told.inspect} in:\n#{text}"
  end
end
