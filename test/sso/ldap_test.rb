# Passwords and groups of a real OpenLDAP server.
require "minitest/autorun"
require_relative "../../gem/test/support/hang_watch"
require_relative "support/people"
require_relative "support/slapd"

class LdapTest < Minitest::Test
  include People

  def self.slapd
    @slapd ||= Slapd.new.start.tap { |slapd| Minitest.after_run { slapd.remove } }
  end

  def setup
    flunk "#{Slapd.missing.join(", ")} missing: bin/setup test" if Slapd.missing.any?
    @slapd = self.class.slapd
    @own = [@slapd.tls_url, Slapd::BASE, @slapd.trust, @slapd.account]
  end

  def test_a_password_signs_in_with_the_groups_of_groups
    assert_equal "alice <alice@example.test>: circle everybody operators staff", ask(*@own, "authenticate=alice:#{Slapd::PASSWORD}")
  end

  def test_the_name_is_the_directorys_whatever_was_typed
    assert_match(/\Aalice </, ask(*@own, "authenticate=ALICE:#{Slapd::PASSWORD}"))
  end

  def test_what_is_not_right_is_denied
    assert_equal "the password is wrong", ask(*@own, "authenticate=alice:wrong")
    assert_equal "the directory has nobody of this name", ask(*@own, "authenticate=nobody:#{Slapd::PASSWORD}")
    assert_match(/\Athe directory has several people of this name/, ask(*@own, "authenticate=twin:#{Slapd::PASSWORD}"))
  end

  def test_an_empty_password_is_no_visit_without_a_name
    assert_equal "the password is empty", ask(*@own, "authenticate=alice:")
  end

  def test_a_name_is_no_filter
    ["*", "alice)(uid=*", "a*", "alice*"].each { |name| assert_equal "the directory has nobody of this name", ask(*@own, "authenticate=#{name}:#{Slapd::PASSWORD}") }
    assert_match(/\Aodd\(\*\)\\,name </, ask(*@own, "authenticate=odd(*)\\,name:#{Slapd::PASSWORD}"))
  end

  def test_people_sign_in_by_their_own_dn_without_an_account
    own = [@slapd.tls_url, Slapd::BASE, @slapd.trust, "as=uid={name},ou=people,#{Slapd::BASE}"]
    assert_equal "alice <alice@example.test>: circle everybody operators staff", ask(*own, "authenticate=alice:#{Slapd::PASSWORD}")
    assert_match(/\Atwin </, ask(*own, "authenticate=twin:#{Slapd::PASSWORD}"), "another branch has one, too")
    assert_equal "the password is wrong", ask(*own, "authenticate=alice,ou=people:#{Slapd::PASSWORD}")
  end

  def test_groups_of_somebody_who_has_a_ticket
    assert_equal "circle everybody operators staff", ask(*@own, "groups=alice")
    assert_equal "", ask(*@own, "groups=bob")
    assert_equal "the directory has nobody of this name", ask(*@own, "groups=nobody")
  end

  def test_starttls_serves_as_well
    assert_match(/\Aalice </, ask(@slapd.url, Slapd::BASE, "starttls", @slapd.trust, @slapd.account, "authenticate=alice:#{Slapd::PASSWORD}"))
  end

  def test_a_server_that_nobody_vouches_for_gets_no_password
    answer = ask(@slapd.tls_url, Slapd::BASE, @slapd.account, "authenticate=alice:#{Slapd::PASSWORD}")
    assert_match(/\AFAILURE no directory answers; ldaps:.*(UnknownIssuer|certificate)/, answer)
  end

  def test_passwords_are_not_sent_in_the_clear
    assert_match(/passwords would be sent in the clear/, ask("ldap://ldap.example.test", Slapd::BASE, @slapd.account))
  end

  def test_an_account_that_is_not_let_in
    own = [@slapd.tls_url, Slapd::BASE, @slapd.trust, "account=cn=admin,#{Slapd::BASE}:wrong"]
    assert_match(/\AFAILURE the directory does not let the account in that searches/, ask(*own, "authenticate=alice:#{Slapd::PASSWORD}"))
    assert_match(/\ALdap at ldaps:.*account Some\(false\)/, ask(*own, "check"))
  end

  def test_a_base_that_is_not_there
    assert_match(/\AFAILURE the directory refuses a search: there is no dc=other/, ask(@slapd.tls_url, "dc=other", @slapd.trust, @slapd.account, "groups=alice"))
  end

  def test_a_server_that_was_restarted_is_asked_again
    answers = ask_around(*@own, "groups=alice", "pause", "groups=bob", "authenticate=alice:#{Slapd::PASSWORD}") do
      @slapd.stop
      @slapd.start
    end
    assert_equal ["go on", "", "alice <alice@example.test>: circle everybody operators staff"], answers
  end

  def test_what_is_remembered_serves_while_the_server_is_away_and_until_it_is_forgotten
    login = "authenticate=alice:#{Slapd::PASSWORD}"
    answers = ask_around(*@own, login, "groups=alice", "pause", login, "groups=alice", "authenticate=alice:wrong", "forget", "groups=alice") { @slapd.stop }
    assert_equal ["alice <alice@example.test>: circle everybody operators staff", "circle everybody operators staff"], answers[1, 2]
    assert_match(/\AFAILURE no directory answers/, answers[3])
    assert_match(/\AFAILURE no directory answers/, answers[5])
  ensure
    @slapd.start
  end

  def test_the_next_server_answers_for_one_that_does_not
    closed = TCPServer.open("127.0.0.1", 0) { |socket| socket.addr[1] }
    silent = TCPServer.open("127.0.0.1", 0)
    urls = ["ldap://127.0.0.1:#{closed}", "ldap://127.0.0.1:#{silent.addr[1]}", "ldap://127.0.0.1:#{@slapd.port}"].join(",")
    assert_match(/\Aalice </, ask(urls, Slapd::BASE, "timeout=6000", @slapd.account, "authenticate=alice:#{Slapd::PASSWORD}"))
  ensure
    silent.close
  end

  def test_a_server_that_does_not_answer_costs_its_time_and_no_more
    silent = TCPServer.open("127.0.0.1", 0)
    answer = ask("ldap://127.0.0.1:#{silent.addr[1]}", Slapd::BASE, "timeout=300", @slapd.account, "authenticate=alice:#{Slapd::PASSWORD}")
    assert_match(/\AFAILURE (no directory answers|the directory did not answer within 0.3 s)/, answer)
  ensure
    silent.close
  end
end
