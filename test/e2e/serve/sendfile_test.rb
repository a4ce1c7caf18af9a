# Files that the app names instead of a body: X-Sendfile, X-Accel-Redirect.
require_relative "../support/rack_routes"
require_relative "../support/scenario"
require_relative "../support/wire"

class SendfileTest < Minitest::Test
  include Scenario
  include RackRoutes

  REPORT = "%PDF-report".freeze

  rack_setup <<~'RUBY'
    def private_file(name) = { "x-sendfile" => File.expand_path("private/#{name}") }
    def pdf(fields) = { "content-type" => "application/pdf", "content-disposition" => "attachment", "content-length" => "0", **fields }
  RUBY

  def start(*arguments) = super(*arguments, files: { "private/report.pdf" => REPORT, "private/with space.pdf" => "space" })

  rack("/sendfile") { [200, pdf(private_file("report.pdf")), []] }
  rack("/accel") { [200, pdf("x-accel-redirect" => "/private/with%20space.pdf"), []] }
  rack("/gone") { [410, pdf(private_file("report.pdf")), []] }

  def test_the_file_takes_the_place_of_the_body
    start
    answer = ask("/sendfile")
    assert_equal [200, REPORT, REPORT.bytesize.to_s], [answer.status, answer.body, answer["content-length"]]
    assert_equal ["application/pdf", "attachment", nil, nil], %w[content-type content-disposition x-sendfile transfer-encoding].map { |name| answer[name] }
    assert_equal "space", ask("/accel").body
    assert_equal [REPORT.bytesize.to_s, ""], ask("/sendfile", method: "HEAD").then { |head| [head["content-length"], head.body] }
    assert_equal [410, REPORT], ask("/gone").then { |gone| [gone.status, gone.body] }
  end

  rack("/tagged") { [200, pdf(private_file("report.pdf").merge("etag" => '"own"')), []] }

  def test_conditions_and_ranges_are_honoured
    start
    tag = ask("/sendfile")["etag"]
    assert_equal 304, ask("/sendfile", "If-None-Match: #{tag}").status
    assert_equal [206, "PDF"], ask("/sendfile", "Range: bytes=1-3").then { |part| [part.status, part.body] }
    assert_equal '"own"', ask("/tagged")["etag"]
    assert_equal 304, ask("/tagged", 'If-None-Match: "own"').status
  end

  rack("/missing") { [200, pdf(private_file("none.pdf")), []] }
  rack("/outside") { [200, pdf("x-accel-redirect" => "/../../etc/hostname"), []] }

  def test_what_is_missing_or_outside_is_not_sent
    start
    assert_equal [404, nil], ask("/missing").then { |answer| [answer.status, answer["x-sendfile"]] }
    @server.wait_for(%r{"GET /missing HTTP/1.1" 404 .* note="the app sent /\S+/private/none.pdf: })
    outside = ask("/outside")
    assert_equal 404, outside.status
    refute_includes outside.body, File.read("/etc/hostname").strip
  end

  rack_setup <<~'RUBY'
    class Body
      def each = yield("instead")
      def close = File.write("closed", "x")
    end
  RUBY
  rack("/body") { [200, { "content-type" => "text/plain", **private_file("report.pdf") }, Body.new] }

  def test_the_apps_own_body_is_closed
    start
    closed = barrier(@dir, "closed")
    assert_equal REPORT, ask("/body").body
    assert_equal "x", closed.wait
  end

  def test_x_sendfile_false_passes_the_header_on
    start("--x-sendfile=false")
    answer = ask("/sendfile")
    assert_equal [File.join(@dir, "private/report.pdf"), ""], [answer["x-sendfile"], answer.body]
  end
end
