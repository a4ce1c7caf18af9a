# Pebble, an ACME server for tests, and the name server it asks: every host is 127.0.0.1 unless told otherwise.
# Built and pinned by test/acme/run.
require "json"
require "net/http"
require "openssl"
require "socket"
require "tmpdir"
require_relative "certificates"

class Pebble
  # Ports that were free a moment ago; none is given twice.
  def self.ports(count)
    @given ||= []
    sockets, fresh = [], []
    until fresh.size == count
      sockets << TCPServer.new("127.0.0.1", 0)
      fresh = sockets.map { |socket| socket.addr[1] } - @given
    end
    @given.concat(fresh)
    fresh
  ensure
    sockets&.each(&:close)
  end

  # `http` and `tls`: where it validates, in place of 80 and 443. `lifetime`: of its certificates, seconds.
  def initialize(http:, tls:, lifetime: 7_776_000)
    tools = ENV.fetch("PEBBLE_DIR") { abort "run test/acme/run: it builds Pebble" }
    @dir = Dir.mktmpdir("paceline-pebble-")
    @acme, @management, @dns, @names = self.class.ports(4)
    authority = Authority.new
    @ca_file = authority.file(@dir)
    certificate, key = authority.write(@dir, "pebble", "localhost", "127.0.0.1")
    File.write(config = File.join(@dir, "config.json"), JSON.generate(pebble: {
      listenAddress: "127.0.0.1:#{@acme}", managementListenAddress: "127.0.0.1:#{@management}",
      certificate:, privateKey: key, httpPort: http, tlsPort: tls, keyAlgorithm: "ecdsa",
      certificateValidityPeriod: lifetime
    }))
    @log = File.join(@dir, "log")
    output = { %i[out err] => [@log, "a"] }
    names = [File.join(tools, "pebble-challtestsrv"), "-http01", "", "-https01", "", "-tlsalpn01", "", "-defaultIPv6", "",
             "-dns01", "127.0.0.1:#{@dns}", "-management", "127.0.0.1:#{@names}"]
    # As it is, but at once, and without the nonces it refuses and the proofs it remembers for the sake of practice.
    practice = { "PEBBLE_VA_NOSLEEP" => "1", "PEBBLE_WFE_NONCEREJECT" => "0", "PEBBLE_AUTHZREUSE" => "0" }
    @pids = [Process.spawn(*names, output),
             Process.spawn(practice, File.join(tools, "pebble"), "-config", config, "-dnsserver", "127.0.0.1:#{@dns}", output)]
    answers { Net::HTTP.start("127.0.0.1", @names) { true } }
    answers { root }
  end

  attr_reader :ca_file

  def directory = "https://127.0.0.1:#{@acme}/dir"

  # The root of what it issues.
  def root
    @root ||= OpenSSL::X509::Certificate.new(management("/roots/0"))
  end

  # Lets a name lead elsewhere.
  def lead(host, address)
    Net::HTTP.post(URI("http://127.0.0.1:#{@names}/add-a"), JSON.generate(host: "#{host}.", addresses: [address])).value
  end

  def log = File.read(@log)

  # How many there were so far.
  def orders = log.scan(/There are now \d+ orders in the db/).size

  def accounts = log.scan(/There are now \d+ accounts in memory/).size

  def stop
    @pids.each { |pid| Process.kill(:KILL, pid) && Process.wait(pid) }
    FileUtils.rm_rf(@dir)
  end

  private

  def management(path)
    Net::HTTP.start("127.0.0.1", @management, use_ssl: true, ca_file: @ca_file) { |http| http.get(path).body }
  end

  def answers
    limit = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 30
    begin
      yield
    rescue SystemCallError, OpenSSL::SSL::SSLError
      raise "Pebble does not answer:\n#{log}" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > limit
      sleep 0.02
      retry
    end
  end
end
