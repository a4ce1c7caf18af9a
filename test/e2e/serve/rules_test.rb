# [[rule]]: what is done with requests for some paths and hosts before a file, a kept page or the application answers.
require "base64"
require "open3"
require_relative "../support/scenario"

class RulesTest < Minitest::Test
  include Scenario

  APP = <<~'RUBY'.freeze
    run lambda { |env|
      path = env["PATH_INFO"]
      fields = { "content-type" => "text/html", "x-powered-by" => "rack" }
      fields["cache-control"] = "public, max-age=600" if path.include?("kept")
      fields["surrogate-control"] = 'content="ESI/1.0"' if path.include?("page")
      count = File.write("calls", "x", mode: "a") && File.size("calls")
      body = case path
      when %r{page}
        part = env["QUERY_STRING"]
        part.empty? ? '<esi:include src="/secret/part"/>' : %(<p><esi:include src="#{part}" onerror="continue"/>)
      when %r{wait} then File.read("barrier")
      when %r{part} then "a part"
      else
        body = env["rack.input"]&.read.to_s.bytesize
        "app #{path} call=#{count} authorization=#{env["HTTP_AUTHORIZATION"].inspect} user=#{env["REMOTE_USER"].inspect} body=#{body}"
      end
      [200, fields, [body]]
    }
  RUBY

  # Of "password", by htpasswd -nbBC 4; the other one of "sesame".
  PASSWORD = "$2y$04$sSViL2OFEAjZyEHOBASyAOxgRdqX/SO3N1Ok4MEEZ4H6bFxiOz7u6".freeze
  SESAME = "$2y$04$cWo3uD.pszNDvsDVB16jRehxgsUqdmwyukuYvhd9gNHxSPkPgk7ZS".freeze
  ARGON2 = "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4".freeze

  def start(toml, files = {}, staff: "alice:#{PASSWORD}\nbob:#{ARGON2}\n", **options)
    @dir = app({ "config.ru" => APP, "paceline.toml" => toml, "staff" => staff, "public/secret/file.txt" => "a file",
      "public/open.txt" => "open" }.merge(files))
    @server = serve(@dir, **options)
  end

  def login(name, password) = "Authorization: Basic #{Base64.strict_encode64("#{name}:#{password}")}"

  def from(address) = "X-Forwarded-For: #{address}"

  PROTECTED = "[[rule]]\npath = \"/secret/*\"\nbasic_auth = { file = \"staff\", realm = \"Staff only\" }\n".freeze

  def test_nothing_is_given_out_without_a_password
    start(PROTECTED)
    %w[/secret/file.txt /secret/app /secret/kept /SECRET/kept //secret/kept /x/..%2fsecret/kept /secret].each do |path|
      answer = ask(path)
      assert_equal [401, 'Basic realm="Staff only", charset="UTF-8"', "private, no-store"], [answer.status, answer["www-authenticate"], answer["cache-control"]], path
    end
    assert_equal [401, 401], [ask("/secret/app", login("alice", "wrong")).status, ask("/secret/app", login("carol", "password")).status]
    assert_equal [200, "open"], [ask("/open.txt").status, ask("/open.txt").body]
    refute File.exist?(File.join(@dir, "calls")), "the application was asked"
    @server.wait_for(/"GET \/secret\/app HTTP\/1.1" 401 .*note="basic_auth: wrong name or password"/)
  end

  def test_files_kept_pages_and_the_application_are_behind_it_alike
    start(PROTECTED)
    alice = login("alice", "password")
    assert_equal "a file", ask("/secret/file.txt", alice).body
    first = ask("/secret/kept", alice)
    assert_includes first.body, "call=1 authorization=nil user=nil"
    again = ask("/secret/kept", login("bob", "password"))
    assert_equal first.body, again.body, "a kept page"
    assert_match(/\Ahit/, again["cache-status"].to_s[/; (hit.*)/, 1].to_s)
    assert_equal ["private, max-age=600"] * 2, [first["cache-control"], again["cache-control"]]
    assert_equal [401, 401], [ask("/secret/kept").status, ask("/secret/kept", login("alice", "sesame")).status]
  end

  def test_the_name_reaches_the_application_if_that_is_wanted
    start("[[rule]]\npath = \"/secret/*\"\nbasic_auth = { file = \"staff\", pass_user = true }\n")
    body = ->(path, *fields) { ask(path, *fields).body }
    assert_includes body.("/secret/kept", login("alice", "password")), 'authorization=nil user="alice"'
    assert_includes body.("/secret/kept", login("bob", "password")), 'user="bob"'
    assert_includes body.("/open", "Remote-User: admin"), "user=nil"
  end

  def test_a_password_that_changes_counts_at_once_for_those_who_come_anew
    start(PROTECTED)
    assert_equal 200, ask("/secret/app", login("alice", "password")).status
    write(@dir, "staff" => "alice:#{SESAME}\n# changed\n")
    eventually("the new password") { ask("/secret/app", login("alice", "sesame")).status == 200 }
    assert_equal 401, ask("/secret/app", login("alice", "password")).status
    write(@dir, "staff" => "alice:plain\n")
    eventually("the mistake") { ask("/secret/app", login("alice", "sesame")).status == 503 }
    @server.wait_for(/basic_auth rejects every request: .*staff:1: has a hash that is neither bcrypt nor argon2/)
  end

  def test_guessing_ends
    start(PROTECTED)
    statuses = Array.new(25) { |number| ask("/secret/app", login("alice", "guess#{number}"), from("192.0.2.9")).status }
    assert_equal [401, 429], statuses.uniq
    assert_equal [429, 401], [ask("/secret/app", login("alice", "more"), from("192.0.2.9")), ask("/secret/app", login("alice", "more"), from("192.0.2.10"))].map(&:status)
  end

  def test_a_part_of_a_page_is_no_way_around_a_rule
    start(PROTECTED + "[[rule]]\npath = \"/office/*\"\nallow = \"192.0.2.0/24\"\n")
    refute_includes ask("/open/page").body, "a part"
    assert_equal "a part", ask("/secret/page", login("alice", "password")).body
  end

  # Cache-Control goes to browsers and CDNs: a part that some may see makes it a page for them alone.
  def test_a_page_with_a_protected_part_is_kept_by_nobody_else
    start(PROTECTED + "[[rule]]\npath = \"/office/*\"\nallow = \"127.0.0.0/8\"\n")
    page = ->(part, *fields, **options) { ask("/kept-page?#{part}", *fields, **options).then { |answer| [answer.body, answer["cache-control"]] } }
    2.times { assert_equal ["<p>a part", "public, max-age=600"], page.("/open/part") }
    2.times { assert_equal ["<p>a part", "private, max-age=600"], page.("/office/part") }
    assert_equal ["<p>", "private, max-age=600"], page.("/office/part", from("198.51.100.1")), "without the part: others have it"
    assert_equal ["<p>", "private, max-age=600"], page.("/secret/part")
    assert_equal "private, max-age=600", page.("/office/part", method: "HEAD").last
  end

  def test_a_protected_part_that_comes_late_is_known_before_the_page_goes_out
    start("[[rule]]\npath = \"/office/*\"\nallow = \"127.0.0.0/8\"\n")
    late = open_request("/kept-page?/office/wait")
    barrier(@dir).open
    answer = Wire.response(late)
    assert_equal ["<p>go", "private, max-age=600"], [answer.body, answer["cache-control"]]
    open = open_request("/kept-page?/open/wait")
    File.write(File.join(@dir, "barrier"), "go")
    assert_equal "public, max-age=600", Wire.response(open)["cache-control"]
  end

  def test_addresses
    start("[[rule]]\ndeny = \"192.0.2.66\"\n[[rule]]\npath = \"/secret/*\"\nallow = [\"192.0.2.0/24\"]\n")
    status = ->(path, address) { ask(path, from(address)).status }
    assert_equal [200, 403], [status.("/", "198.51.100.1"), status.("/", "192.0.2.66")]
    %w[/secret/app /secret/file.txt /%73ecret/file.txt].each do |path|
      assert_equal [200, 403, 403], [status.(path, "192.0.2.1"), status.(path, "198.51.100.1"), status.(path, "192.0.2.66")], path
    end
  end

  def test_redirects
    start("[[rule]]\nhost = \"www.test\"\nredirect = \"https://shop.test\"\n[[rule]]\npath = \"/old/*\"\nredirect = \"/new/*\"\nstatus = 307\n")
    www = ask("/a?b=c", "Host: www.test")
    assert_equal [301, "https://shop.test/a?b=c"], [www.status, www["location"]]
    assert_equal 308, ask("/a", "Host: www.test", "Content-Length: 0", method: "POST").status
    moved = ask("/old/1/2?x=y")
    assert_equal [307, "/new/1/2?x=y"], [moved.status, moved["location"]]
    assert_equal "/new//evil.test", ask("/old//evil.test")["location"], "another path, and never another host"
    assert_equal 200, ask("/new/1").status
  end

  def test_headers_of_files_kept_pages_errors_and_the_application
    start("[[rule]]\nheaders = { set = { X-Frame-Options = \"DENY\" }, remove = [\"X-Powered-By\"] }\n[[rule]]\npath = \"/up\"\ndeny = \"192.0.2.1\"\n")
    ask("/kept")
    [ask("/open.txt"), ask("/kept"), ask("/app"), ask("/up", from("192.0.2.1"))].each do |answer|
      assert_equal ["DENY", nil], [answer["x-frame-options"], answer["x-powered-by"]], answer.line
    end
  end

  def test_bodies
    start("max_body = \"1KB\"\n[[rule]]\npath = \"/uploads/*\"\nmax_body = \"10KB\"\n")
    post = ->(path, size, sent = size) { @server.wire("POST #{path} HTTP/1.1\r\nHost: a\r\nContent-Length: #{size}\r\nConnection: close\r\n\r\n#{"x" * sent}").status }
    # What is too large is refused before it comes.
    assert_equal [200, 413, 200, 413], [post.("/a", 1024), post.("/a", 1025, 0), post.("/uploads/a", 10_240), post.("/uploads/a", 10_241, 0)]
  end

  def test_mistakes_are_told_at_the_start
    { "\n[[rule]]\npath = \"/a\"\nredirct = \"/b\"" => /paceline\.toml:4:1: "rule" has in \[\[rule\]\] path = "\/a" .*\(did you mean "redirect"\?\)/,
      "[[rule]]\nbasic_auth = \"none\"" => /none: cannot be read: No such file/,
      "[[rule]]\nbasic_auth = \"plain\"" => /plain:2: has a hash that is neither bcrypt nor argon2: make a new one with htpasswd -B FILE bob/,
      "[[rule]]\nhost = \"a.test\"\nallow = \"10.0.0.0/8\"" => /the site answers every other host, too: add host = "a\.test" to its \[\[site\]\]/ }.each do |toml, told|
      dir = app("config.ru" => APP, "paceline.toml" => toml, "plain" => "alice:#{PASSWORD}\nbob:secret\n")
      out, status = Open3.capture2e({ "PACELINE_GEM_DIR" => File.join(CHECKOUT, "gem") }.merge(AS_ROOT), BIN, "-p", "0", chdir: dir)
      refute status.success?
      assert_match told, out
    end
  end
end
