# A real Redmine over HTTP: log in, create, edit and find an issue, upload an attachment and get the same bytes back.
#
#   REDMINE_URL=http://127.0.0.1:3000 REDMINE_ACCOUNT=tmp/redmine/account.json ruby test/e2e/applications/redmine_test.rb
#
# Without REDMINE_URL every test is skipped.
require "minitest/autorun"
require "digest"
require "json"
require_relative "../support/issue_form"
require_relative "../support/visitor"

class RedmineTest < Minitest::Test
  URL = ENV["REDMINE_URL"]
  ACCOUNT = JSON.parse(File.read(ENV.fetch("REDMINE_ACCOUNT", File.expand_path("../../../tmp/redmine/account.json", __dir__)))) if URL

  def setup
    skip "REDMINE_URL is not set" unless URL
    @visitor = Visitor.new(URL)
  end

  def teardown
    @visitor&.finish
  end

  def test_a_wrong_password_is_refused
    page = log_in("not the password")

    assert_equal "200", page.code
    assert_includes page.body, "Invalid user or password"
  end

  def test_a_stranger_is_sent_to_the_login_form
    answer = @visitor.get("/my/page")

    assert_equal "302", answer.code
    assert_includes answer["location"], "/login"
  end

  def test_a_post_without_its_token_is_refused
    log_in

    answer = @visitor.post("/projects/#{ACCOUNT["project"]}/issues", { "issue[subject]" => "forged" }, token: nil)

    assert_equal "422", answer.code
  end

  def test_an_issue_is_created_edited_and_found
    log_in
    subject = "Wort runs too warm #{Process.clock_gettime(Process::CLOCK_REALTIME, :nanosecond)}"

    form = @visitor.get("/projects/#{ACCOUNT["project"]}/issues/new")
    created = @visitor.post("/projects/#{ACCOUNT["project"]}/issues", IssueForm.fields(form.body).merge(
      "issue[subject]" => subject, "issue[description]" => "Über 22 °C, *every* night.", "commit" => "Create"
    ))

    assert_equal "302", created.code, created.body[/id="errorExplanation".*?<\/div>/m]
    id = created["location"][%r{/issues/(\d+)}, 1]
    page = @visitor.follow(created)
    assert_includes page.body, subject
    assert_includes page.body, "Über 22 °C"

    edited = @visitor.post("/issues/#{id}", IssueForm.fields(@visitor.get("/issues/#{id}/edit").body).merge(
      "_method" => "patch", "issue[subject]" => "#{subject}, mended", "issue[notes]" => "A new valve."
    ))
    assert_equal "302", edited.code
    page = @visitor.follow(edited)
    assert_includes page.body, "#{subject}, mended"
    assert_includes page.body, "A new valve."

    found = @visitor.get("/projects/#{ACCOUNT["project"]}/search?#{URI.encode_www_form("q" => "#{subject} mended", "issues" => "1")}")
    found = @visitor.follow(found) if found.code == "302"
    assert_equal "200", found.code
    assert_includes found.body, "/issues/#{id}"
  end

  def test_an_attachment_comes_back_byte_for_byte
    log_in
    bytes = Random.new(7).bytes(900_000)
    issue = create_by_api("With a picture of the kettle")

    form = @visitor.get("/issues/#{issue}/edit")
    stored = @visitor.post_multipart("/issues/#{issue}", IssueForm.fields(form.body).merge("_method" => "patch"),
      files: { "attachments[1][file]" => ["kettle ü.bin", bytes] })
    assert_equal "302", stored.code

    attachment = @visitor.get("/issues/#{issue}.json?include=attachments", key).then { |answer| JSON.parse(answer.body)["issue"]["attachments"].last }
    assert_equal bytes.bytesize, attachment["filesize"]
    back = @visitor.get(URI(attachment["content_url"]).request_uri)
    assert_equal "200", back.code
    assert_equal Digest::SHA256.hexdigest(bytes), Digest::SHA256.hexdigest(back.body)
  end

  def test_an_upload_as_the_browsers_script_does_it
    log_in
    bytes = "tiny\x00\xffpart".b * 30_000

    uploaded = @visitor.post_body("/uploads.json?filename=raw.bin", bytes, key.merge("Content-Type" => "application/octet-stream"))

    assert_equal "201", uploaded.code, uploaded.body
    assert_match(/\A\d+\.\h+\z/, JSON.parse(uploaded.body)["upload"]["token"])
  end

  def test_pages_feeds_and_files
    log_in

    { "/" => "text/html", "/projects/#{ACCOUNT["project"]}/issues" => "text/html", "/projects/#{ACCOUNT["project"]}/issues.csv" => "text/csv",
      "/projects/#{ACCOUNT["project"]}/activity.atom" => "application/atom+xml" }.each do |path, type|
      answer = @visitor.get(path)
      answer = @visitor.follow(answer) if answer.code == "302"
      assert_equal "200", answer.code, path
      assert_includes answer["content-type"].to_s, type, path
    end
    assert_equal "404", @visitor.get("/no/such/page").code
  end

  def test_every_style_and_script_of_the_login_page_is_served
    files = @visitor.get("/login").body.scan(%r{(?:href|src)="(/[^"]+\.(?:css|js)(?:\?[^"]*)?)"}).flatten

    refute_empty files
    files.each { |path| assert_equal "200", @visitor.get(path).code, path }
  end

  def test_logging_out_ends_the_session
    log_in
    assert_equal "200", @visitor.get("/my/page").code

    @visitor.get("/")
    assert_equal "302", @visitor.post("/logout", {}).code
    assert_equal "302", @visitor.get("/my/page").code
  end

  private

  def log_in(password = ACCOUNT["password"])
    @visitor.get("/login")
    answer = @visitor.post("/login", { "username" => ACCOUNT["login"], "password" => password, "back_url" => "#{URL}/my/page" })
    answer.code == "302" ? @visitor.follow(answer) : answer
  end

  def key
    { "X-Redmine-API-Key" => ACCOUNT["api_key"] }
  end

  def create_by_api(subject)
    body = JSON.generate("issue" => { "project_id" => ACCOUNT["project"], "subject" => subject })
    answer = @visitor.post_body("/issues.json", body, key.merge("Content-Type" => "application/json"))
    assert_equal "201", answer.code, answer.body
    JSON.parse(answer.body)["issue"]["id"]
  end
end
