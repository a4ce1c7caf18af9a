# Active Directory before the server: tickets with groups, their names by LDAP, Chromium that signs in by itself. test/sso/samba runs it, with the domain
# controller of samba_test.rb, in a network namespace of its own.
require_relative "../support/domain"
require_relative "../support/front"

class ServerSambaTest < Minitest::Test
  include Front

  WEB = Domain::WEB

  def setup
    super
    @kdc = @domain = Domain.shared
    @keytab = @domain.file("http.keytab")
    FileUtils.rm_f(@domain.file("cc"))
  end

  # Names and groups by the domain's directory.
  def site(more = "", directory: true)
    password = @domain.file("account-password")
    File.write(password, "#{Samba::PASSWORD}\n", perm: 0o600)
    basic = "basic = { ldap = \"ldaps://dc1.ad.test\", base = \"#{Samba::BASE}\", ca_file = \"#{@domain.file("authority.pem")}\", account = \"websvc@ad.test\", password_file = \"#{password}\" }\n"
    front("[[sso]]\nkerberos = { keytab = \"#{@keytab}\" }\n#{basic if directory}otherwise = \"refuse\"\n#{more}", env: @domain.env, hosts: [WEB, "localhost"])
  end

  def browser(**options) = super(host: WEB, **options)

  def test_the_groups_of_a_ticket_have_the_directorys_names
    @domain.sign_in("alice")
    site('allow = ["group:everybody"]')
    told = told(browser(ticket: true).get("/"))
    assert_equal "alice", told["REMOTE_USER"]
    assert_equal ["Domain Users", "everybody", "staff"], told["paceline.user"]["groups"].sort
    @domain.sign_in("bob")
    assert_equal "403", browser(ticket: true).get("/").code, "he is in no such group"
  end

  def test_without_a_directory_the_groups_are_their_numbers
    @domain.sign_in("alice")
    site(directory: false)
    groups = told(browser(ticket: true).get("/"))["paceline.user"]["groups"]
    assert_operator groups.size, :>=, 3
    assert(groups.all? { |group| group.match?(/\AS-1-\d+(-\d+)+\z/) }, groups.inspect)
  end

  def test_a_ticket_with_another_name_is_still_its_accounts
    site
    %w[c.example carol].each do |name|
      @domain.sign_in(name)
      assert_signed_in "carol", browser(ticket: true).get("/")
    end
  end

  def test_chromium_signs_in_by_itself_where_it_is_told_to
    @domain.sign_in("alice")
    site
    refute_includes chromium, "REMOTE_USER"
    assert_includes chromium("--auth-server-allowlist=*.ad.test"), '"REMOTE_USER":"alice"'
  end

  def test_the_check_finds_the_domain
    @domain.sign_in("alice")
    site
    text, status = Open3.capture2e(@domain.env.merge(AS_ROOT), BIN, "sso", "check", "--url", "https://#{WEB}:#{@server.port}/", "--ca-file", @authority_file, WEB, chdir: @server.dir)
    assert_match(/^ok      clock: dc1\.ad\.test:88, a KDC of AD\.TEST: the clocks differ by/, text)
    assert_match(/^ok      ticket: your ticket signs you in as alice of AD\.TEST, with \d groups/, text)
    assert_match(/^ok      ldap: ldaps:\/\/dc1\.ad\.test(:636)? answers \(ActiveDirectory\), lets the account in/, text)
    assert_match(/^ok      visit: .* signs you in by your ticket, and proves itself/, text)
    assert_equal 0, status.exitstatus, text
  end

  private

  # What it shows of the page.
  def chromium(*options)
    output, = Open3.capture2(@domain.env, "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--ignore-certificate-errors", "--user-data-dir=#{@domain.file("chromium")}",
      *options, "--dump-dom", "https://#{WEB}:#{@server.port}/", err: File::NULL)
    output
  end
end
