# `paceline --https`: a certificate of the server's own, or one by mkcert's authority. The rack handler with a whole address.
require_relative "../support/scenario"
require_relative "../support/certificates"

class HttpsInDevelopmentTest < Minitest::Test
  include Scenario

  SCHEME = 'run ->(env) { [200, {}, [env["rack.url_scheme"]]] }'.freeze

  # As far as the server uses it: it says where its authority is, and makes two files.
  MKCERT = <<~'SH'
    #!/bin/sh
    here=$(dirname "$0")
    [ "$1" = -CAROOT ] && { echo "$here"; exit; }
    echo "$@" >> "$here/asked"
    cp "$here/shop.pem" "$2" && cp "$here/shop.key" "$4"
  SH

  def setup
    @state = app
    @dir = app("config.ru" => SCHEME)
  end

  def start(env = {})
    @server = serve(@dir, "-b", "tcp://127.0.0.1:0", "--https", env: { "XDG_STATE_HOME" => @state }.merge(env), port: false)
    @server.port = Integer(@server.wait_for(%r{Listening on https://127.0.0.1:(\d+)})[1])
  end

  # The answer to a client that trusts nothing but `ca`, and checks the name.
  def get(ca, host)
    store = OpenSSL::X509::Store.new.tap { |trusted| trusted.add_file(ca) }
    Net::HTTP.start(host, @server.port, use_ssl: true, cert_store: store, ipaddr: "127.0.0.1", read_timeout: PATIENCE) { |http| http.get("/").body }
  end

  def test_the_server_makes_a_certificate_and_keeps_it
    start("PATH" => without_mkcert)
    own = File.join(@state, "paceline/https/localhost.pem")
    assert_match(/^\* https has a certificate that signs itself, so browsers warn \(with mkcert installed.*\): #{own}$/, @server.output)
    %w[localhost shop.localhost 127.0.0.1].each { |host| assert_equal "https", get(own, host), host }
    assert_raises(OpenSSL::SSL::SSLError) { get(own, "other.test") }
    assert_equal "100600", File.stat(File.join(@state, "paceline/https/localhost-key.pem")).mode.to_s(8)
    before = File.read(own)
    assert_equal 0, @server.stop.exitstatus
    start("PATH" => without_mkcert)
    assert_equal before, File.read(own)
  end

  def test_mkcert_s_authority_is_used_where_it_is
    tools = app("mkcert" => MKCERT)
    File.chmod(0o755, File.join(tools, "mkcert"))
    authority = Authority.new
    authority.write(tools, "shop", "localhost")
    File.write(root = File.join(tools, "rootCA.pem"), authority.certificate.to_pem)
    start("PATH" => "#{tools}:#{ENV["PATH"]}")
    assert_match(/^\* https has a certificate by mkcert's authority: /, @server.output)
    assert_equal "https", get(root, "localhost")
    assert_match(/ localhost \*\.localhost 127\.0\.0\.1 ::1/, File.read(File.join(tools, "asked")))
  end

  # The programs of this machine, but for mkcert.
  def without_mkcert
    ENV["PATH"].split(":").reject { |dir| File.exist?(File.join(dir, "mkcert")) }.join(":")
  end
end
