# `bin/demo --sso`: somebody signs in at the identity provider or by a ticket, changes a price, and the guide says who it was.
require "minitest/autorun"
require "open3"
require "socket"
require "timeout"
require_relative "../support/browser"
require_relative "../support/kdc"
require_relative "../support/provider"

class SignOnDemoTest < Minitest::Test
  ROOT = File.expand_path("../../..", __dir__)
  DEADLINE = 90

  def setup
    missing = Kdc.missing + OpenidProvider.missing
    flunk "#{missing.join(", ")} missing: bin/setup test" if missing.any?
    dir = File.join(ROOT, "tmp/sso-demo")
    output, status = Open3.capture2e(File.join(ROOT, "test/brewery/prepare"), dir)
    assert status.success?, output
    @port = TCPServer.open("127.0.0.1", 0) { |server| server.addr[1] }
    read, write = IO.pipe
    @pid = Process.spawn({ "PORT" => @port.to_s }, File.join(ROOT, "test/sso/demo"), dir, out: write, err: write, pgroup: true)
    write.close
    @said = +""
    @ready = Queue.new
    @reader = Thread.new do
      read.each_line do |line|
        @said << line
        @ready << true if line.include?("is ready")
      end
      @ready << false
    end
  end

  def teardown
    Process.kill("TERM", @pid)
    _, status = Process.wait2(@pid)
    @reader.join
    assert_predicate status, :success?, @said
    refute File.exist?(@said[/KRB5_CONFIG=(\S+)/, 1]), "the realm is gone with the server"
  end

  def test_a_price_is_changed_by_people_who_signed_in
    assert Timeout.timeout(DEADLINE) { @ready.pop }, @said
    authority = @said[/--cacert (\S+)/, 1]

    ines = Browser.new("https://localhost:#{@port}", authority: authority)
    # She is asked for a ticket first, and has none.
    answer = ines.open("/feed")
    assert_equal "200", ines.sign_in_as("ines", ines.open(answer["refresh"][/url=(\S+)/, 1])).code
    page = ines.open("/beers/13")
    price = format("%.2f", 2 + rand(900) / 100.0)
    answer = ines.post("/beers/13/price", { "_method" => "patch", "authenticity_token" => token(page), "beer[price]" => price }, "Origin" => "https://localhost:#{@port}")
    assert_equal "302", answer.code, answer.body

    # Somebody with a ticket, as the text says it; the admin section knows alice without a password of its own.
    env = @said.match(/export (KRB5_CONFIG)=(\S+) (KRB5CCNAME)=(\S+)/).captures.each_slice(2).to_h.merge("PATH" => Kdc::PATH)
    output, status = Open3.capture2e(env, "kinit", "alice", stdin_data: "#{Kdc::PASSWORD}\n")
    assert status.success?, output
    curl = ["curl", "-sS", "--negotiate", "-u", ":", "--cacert", authority]
    audit, status = Open3.capture2e(env, *curl, "https://localhost:#{@port}/audit")
    assert status.success?, audit
    row = audit[%r{<tbody>\s*<tr>.*?</tr>}m]
    assert_includes row, "€ #{price}"
    assert_includes row, "<td>ines</td>"
    admin, = Open3.capture2e(env, *curl, "-o", "/dev/null", "-w", "%{http_code}", "https://localhost:#{@port}/admin/beers")
    assert_equal "200", admin
    assert_changed_in_a_browser
  end

  private

  # The same by somebody with a browser.
  def assert_changed_in_a_browser
    price = format("%.2f", 12 + rand(900) / 100.0)
    env = { "SITE" => "https://localhost:#{@port}", "PERSON" => "greta", "PRICE" => price }
    row, status = Open3.capture2e(env, "node", File.join(ROOT, "test/sso/demo.mjs"))
    assert_predicate status, :success?, row
    assert_includes row, "greta"
    assert_includes row, "€ #{price}"
  end

  def token(page) = page.body[/name="csrf-token" content="([^"]+)"/, 1].gsub("&amp;", "&")
end
