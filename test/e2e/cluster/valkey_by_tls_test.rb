# Servers that reach their Valkey or Redis by TLS (rediss://): with the certificate of a test's own authority, and with certificates that must not be believed.
require_relative "../support/certificates"
require_relative "../support/control"
require_relative "../support/origin"
require_relative "../support/valkey_group"

class ValkeyByTlsTest < Minitest::Test
  include Scenario
  include Control

  SECRET = "open-sesame".freeze

  def setup
    skip "there is no valkey-server and no redis-server" unless Valkey.program
    @authority = Authority.new
    # Each answer has a number of its own.
    @count = 0
    @origin = Origin.new do |link, _|
      while (head = link.head)
        link.body(head)
        link.answer((@count += 1).to_s, fields: ["Cache-Control: max-age=600"])
      end
    end
  end

  def teardown
    super
    @origin&.close
    @valkey&.close
  end

  # Starts a Valkey that speaks only TLS, with a certificate for this name.
  def valkey(name)
    dir, @port = app, ValkeyGroup.ports(1).first
    tls = [*@authority.write(dir, "valkey", name), @authority.file(dir)]
    @valkey = Valkey.new(*ValkeyGroup.arguments({ "bind" => ValkeyGroup::HOST, "requirepass" => SECRET, **ValkeyGroup.listening(@port, tls) }))
  end

  # Starts a server that trusts this authority.
  def front(authority = @authority)
    files = {
      "secret" => "#{SECRET}\n",
      "authority.pem" => authority.certificate.to_pem,
      "paceline.toml" => <<~TOML,
        [cluster]
        url = "rediss://#{ValkeyGroup::HOST}:#{@port}"
        password_file = "secret"
        ca_file = "authority.pem"
        name = "shop"
        partition_ttl = "1h"
        shared_cache = true
        shared_cache_time = "10s"
        shared_rate_limits = true
        [[site]]
        upstream = "#{@origin.url}"
      TOML
    }
    serve(app(files), ready: false)
  end

  def page(front, path) = front.get(path, "Host" => "shop.test")

  def test_purges_and_pages_go_by_tls
    valkey(ValkeyGroup::HOST)
    one, other = fronts = Array.new(2) { front }
    fronts.each do |server|
      eventually("a server that uses Valkey") { control(server, "/cluster").then { |told| told["shows_pages"] && told["shared_cache"]["is_connected"] && told["members"].size == 2 } }
    end
    first = page(one, "/a").body
    tried = 0
    eventually("a page of the other server") do
      page(other, "/b-#{tried += 1}")
      page(one, "/b-#{tried}")["cache-status"].include?("detail=shared")
    end
    assert_equal first, eventually("the page from the cache") { page(one, "/a").then { |told| told.body if told["cache-status"].include?("; hit") } }
    printed, status = command(other.dir, "purge", "http://shop.test/a")
    assert_equal 0, status
    assert_match(/purged here, and 1 other server has confirmed it/, printed)
    refute_equal first, page(one, "/a").body
    screen, = command(one.dir, "cluster")
    assert_match(/\Ashop, by #{ValkeyGroup::HOST}:#{@port}: 2 servers\n/, screen)
    fronts.each { |server| refute_includes server.output, SECRET }
  end

  def test_a_certificate_of_another_authority_is_not_believed
    valkey(ValkeyGroup::HOST)
    is_not_reached(front(Authority.new))
  end

  def test_a_certificate_for_another_host_is_not_believed
    valkey("valkey.test")
    is_not_reached(front)
  end

  # The application answers everything, and nothing is told to such a Valkey.
  def is_not_reached(server)
    server.wait_for(/Cluster shop: #{ValkeyGroup::HOST}:#{@port} can't be reached: .*certificate/)
    2.times { refute_includes page(server, "/a")["cache-status"], "; hit" }
    refute control(server, "/cluster")["shows_pages"]
    assert_equal "0", @valkey.cli("--no-auth-warning", "-a", SECRET, "DBSIZE").strip[/\d+/]
  end
end
