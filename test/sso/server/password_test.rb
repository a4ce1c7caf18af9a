# Names and passwords of a real directory before the server.
require_relative "../support/ldap"

class ServerPasswordTest < Minitest::Test
  include Front
  include Ldap

  def passwords(more = "", **options)
    front("[[sso]]\nbasic = #{ldap_table}\notherwise = \"basic\"\n#{more}", **options)
  end

  def test_a_password_signs_in_with_the_groups_of_groups
    passwords
    answer = browser.open("/")
    assert_equal "401", answer.code
    assert_match(/\ABasic realm="[^"]+"(, charset="UTF-8")?\z/, answer["www-authenticate"])
    browser = browser()
    answer = browser.get("/", basic("ALICE", Slapd::PASSWORD))
    assert_signed_in "alice", answer
    assert_equal "Basic", told(answer)["AUTH_TYPE"]
    assert_equal %w[circle everybody operators staff], told(answer)["paceline.user"]["groups"].sort
    refute told(answer).key?("HTTP_AUTHORIZATION"), "the password is not the application's business"
  end

  def test_what_is_not_right_is_refused
    passwords
    [%w[alice wrong], ["alice", ""], ["nobody", Slapd::PASSWORD], ["twin", Slapd::PASSWORD], ["alice)(uid=*", Slapd::PASSWORD]].each do |name, password|
      answer = browser.get("/", basic(name, password))
      assert_equal "401", answer.code, name
    end
    refute_includes @server.output, Slapd::PASSWORD
  end

  def test_what_is_no_basic_at_all_is_refused
    passwords
    ["Basic", "Basic !!!", "Basic #{["alice"].pack("m0")}", "Basic #{["\xff:\xfe"].pack("m0")}", "Bearer x", "Digest username=\"alice\""].each do |value|
      assert_equal "401", browser.get("/", "Authorization" => value).code, value
    end
  end

  def test_guessing_is_slowed_down
    passwords
    codes = Array.new(40) { |n| browser.get("/", basic("alice", "wrong #{n}")).code }
    assert_equal %w[401 429], codes.uniq.sort, codes.tally
    answer = browser.get("/", basic("alice", "wrong again"))
    assert_equal "429", answer.code
    assert_operator Integer(answer["retry-after"]), :>=, 1
  end

  def test_guesses_at_the_same_time_are_counted_too
    passwords
    gate = Thread::Queue.new
    threads = Array.new(60) { |n| Thread.new { gate.pop && browser.get("/", basic("alice", "wrong #{n}")).code } }
    threads.size.times { gate << true }
    codes = threads.map(&:value).tally
    assert_equal [%w[401 429], 10], [codes.keys.sort, codes["401"]], "ten guesses for a name"
  end

  def test_a_page_s_requests_at_the_same_time_are_no_guesses
    passwords
    answers = Array.new(30) { Thread.new { browser.get("/", basic("alice", Slapd::PASSWORD)) } }.map(&:value)
    answers.each { |answer| assert_signed_in "alice", answer }
  end

  def test_a_form_of_another_site_is_not_signed_in_by_a_kept_password
    passwords
    form = ->(from) { browser.post("/", "", { **basic("alice", Slapd::PASSWORD), **from }) }
    assert_signed_in "alice", form[{}]
    [{ "Sec-Fetch-Site" => "cross-site" }, { "Origin" => "https://evil.test" }, { "Origin" => "null" }].each do |from|
      refused = form[from]
      assert_equal ["403", true], [refused.code, refused.body.include?("Another site has asked for this")], from
    end
  end

  def test_a_browser_has_a_session_afterwards
    passwords
    browser = browser()
    browser.get("/", basic("alice", Slapd::PASSWORD))
    assert_signed_in "alice", browser.get("/")
  end

  def test_a_directory_that_is_away_is_no_wrong_password
    passwords
    Ldap.slapd.stop
    assert_equal "503", browser.get("/", basic("alice", Slapd::PASSWORD)).code
    Ldap.slapd.start
    assert_signed_in "alice", browser.get("/", basic("alice", Slapd::PASSWORD))
  ensure
    Ldap.slapd.stop
    Ldap.slapd.start
  end

  def test_only_a_group_is_let_in
    passwords('allow = ["group:staff"]')
    assert_signed_in "alice", browser.get("/", basic("alice", Slapd::PASSWORD))
    answer = browser.get("/", basic("bob", Slapd::PASSWORD))
    assert_equal "403", answer.code
    @server.wait_for(/bob/)
  end

  def test_only_some_people_are_let_in
    passwords('allow = ["user:bob", "group:nobodies"]')
    assert_equal "403", browser.get("/", basic("alice", Slapd::PASSWORD)).code
    assert_signed_in "bob", browser.get("/", basic("bob", Slapd::PASSWORD))
  end

  # A group that somebody has left is left for good after the directory's answer was forgotten (a minute), also within a session: not waited for here.
  def test_a_name_with_signs_reaches_the_application_as_it_is
    passwords
    assert_signed_in "odd(*)\\,name", browser.get("/", basic("odd(*)\\,name", Slapd::PASSWORD))
  end

  def test_no_password_is_logged
    passwords(before: "log_requests = true\n")
    browser.get("/?first", basic("alice", Slapd::PASSWORD))
    browser.get("/?second", basic("alice", "not the password"))
    @server.wait_for(/second/)
    [Slapd::PASSWORD, "not the password", ["alice:#{Slapd::PASSWORD}"].pack("m0")].each { |secret| refute_includes @server.output, secret }
  end
end
