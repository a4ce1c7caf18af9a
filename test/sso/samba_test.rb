# Active Directory (Samba): tickets with groups, the groups' names, passwords by LDAP. test/sso/samba runs it in a network namespace of its own.
require "minitest/autorun"
require_relative "../../gem/test/support/hang_watch"
require_relative "support/domain"
require_relative "support/people"
require_relative "support/protected_page"

class SambaTest < Minitest::Test
  include People
  include ProtectedPage

  WEB = Domain::WEB

  def setup
    @kdc = @domain = Domain.shared
    @keytab = @domain.file("http.keytab")
    FileUtils.rm_f(@domain.file("cc"))
    @own = ["ldaps://dc1.ad.test", Samba::BASE, "ca=#{@domain.file("authority.pem")}", "account=websvc@ad.test:#{Samba::PASSWORD}"]
  end

  def teardown = stop_pages

  def test_a_ticket_has_the_groups_and_the_directory_their_names
    @domain.sign_in("alice")
    serve(@keytab)
    response = visit(host: WEB)
    assert_signed_in "alice", response
    sids = response.body[/groups: (.*)/, 1].split
    assert_operator sids.size, :>=, 3
    assert_equal "Domain Users everybody staff", ask(*@own, "names=#{sids.join(",")}")
    assert_equal "Domain Users everybody staff", ask(*@own, "groups=alice"), "by LDAP they are the same"
  end

  def test_chromium_signs_in_by_itself_where_it_is_told_to
    @domain.sign_in("alice")
    serve(@keytab)
    assert_includes chromium, "a ticket is needed"
    assert_includes chromium("--auth-server-allowlist=*.ad.test"), "alice of AD.TEST by kerberos"
  end

  def test_a_ticket_by_another_name_is_still_its_accounts
    serve(@keytab)
    %w[c.example carol].each do |name|
      @domain.sign_in(name)
      assert_signed_in "carol", visit(host: WEB)
    end
  end

  def test_a_changed_password_of_the_service_is_explained
    @domain.sign_in("bob")
    serve(@keytab)
    assert_signed_in "bob", visit(host: WEB)
    @domain.tool("user", "setpassword", "websvc", "--newpassword=#{Samba::PASSWORD}8")
    @domain.sign_in("bob")
    assert_refused "wrong-key-version", visit(host: WEB)
    FileUtils.cp(@keytab, "#{@keytab}.old")
    @domain.tool("domain", "exportkeytab", "#{@keytab}.new", "--principal=HTTP/#{WEB}")
    FileUtils.mv("#{@keytab}.new", @keytab)
    assert_signed_in "bob", visit(host: WEB)
  ensure
    @domain.tool("user", "setpassword", "websvc", "--newpassword=#{Samba::PASSWORD}")
    FileUtils.rm_f(@keytab)
    @domain.tool("domain", "exportkeytab", @keytab, "--principal=HTTP/#{WEB}")
  end

  def test_the_check_finds_the_kdc_by_the_dns
    @domain.sign_in("alice")
    output = @domain.run(ProtectedPage::BIN, "check", @keytab, WEB)
    assert_match(/Good clock: dc1\.ad\.test:88, a KDC of AD\.TEST: the clocks differ by less than 2 s$/, output)
    assert_match(/Good ticket: your ticket signs you in as alice of AD\.TEST, with \d groups/, output)
  end

  def test_a_password_signs_in_with_the_groups_of_groups
    assert_match(/\AActiveDirectory at ldaps:.*account Some\(true\)/, ask(*@own, "check"))
    assert_equal "alice <alice@ad.test>: Domain Users everybody staff", ask(*@own, "authenticate=Alice:#{Samba::PASSWORD}")
    assert_equal "bob <bob@ad.test>: Domain Users web admins", ask(*@own, "authenticate=bob:#{Samba::PASSWORD}")
  end

  def test_active_directory_says_why_not
    assert_equal "the password is wrong", ask(*@own, "authenticate=alice:wrong")
    assert_equal "the password is empty", ask(*@own, "authenticate=alice:")
    assert_equal "the directory has nobody of this name", ask(*@own, "authenticate=nobody:#{Samba::PASSWORD}")
    assert_equal "the account is disabled", ask(*@own, "authenticate=locked:#{Samba::PASSWORD}")
  end

  def test_without_an_account_people_sign_in_as_themselves_and_as_nobody_else
    own = [*@own.first(3), "as={name}@ad.test"]
    assert_match(/\Aalice </, ask(*own, "authenticate=alice:#{Samba::PASSWORD}"))
    assert_match(/\Acarol </, ask(*own, "authenticate=c.example:#{Samba::PASSWORD}"))
    assert_match(/\Athe name is empty, too long/, ask(*own, "authenticate=bob@ad.test:#{Samba::PASSWORD}"))
  end

  def test_starttls_serves_as_well
    own = ["ldap://dc1.ad.test", "starttls", *@own.drop(2)].insert(1, Samba::BASE)
    assert_match(/\Aalice </, ask(*own, "authenticate=alice:#{Samba::PASSWORD}"))
  end

  private

  # What it shows of the page.
  def chromium(*options)
    output, = Open3.capture2(@domain.env, "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir=#{@domain.file("chromium")}", *options,
      "--dump-dom", "http://#{WEB}:#{@port}/", err: File::NULL)
    output
  end
end
