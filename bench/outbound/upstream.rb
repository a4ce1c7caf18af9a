# frozen_string_literal: true

# nginx as the API that is called, with a certificate of an authority made for it, and what its log says of connections.
require "fileutils"
require "openssl"
require_relative "../lib/caches"
require_relative "../lib/processes"
require_relative "../lib/servers"

module Bench
  class OutboundUpstream
    # `opened`: connections; `versions`: of HTTP, with how many calls each; `resumed`: of the connections opened, those whose TLS session was resumed.
    Seen = Struct.new(:calls, :opened, :versions, :resumed, keyword_init: true)

    PATIENCE = 10
    SYSTEM = "/etc/ssl/certs/ca-certificates.crt"

    class Failed < StandardError; end

    attr_reader :pid

    def initialize(place, work)
      @place = place
      @work = work
      @ports = { "h2" => free_port, "h1" => free_port }
    end

    # The system's certificates and the authority's: an API on the internet is verified with as many.
    def certificates = File.join(@work, "certificates.pem")

    # KIND: "h2" or "h1".
    def url(kind) = "https://#{@place.upstream_address}:#{@ports.fetch(kind)}"

    def start
      FileUtils.rm_rf(@work)
      FileUtils.mkdir_p(@work)
      certify
      configuration = File.read(File.join(Servers::PEERS, "outbound.nginx.conf"))
      { "WORK" => @work, "ADDRESS" => @place.upstream_address, "PORT_H2" => @ports["h2"], "PORT_H1" => @ports["h1"], "KILOBYTE" => Caches::KILOBYTE }
        .each { |word, value| configuration = configuration.gsub(word, value.to_s) }
      File.write(path = File.join(@work, "outbound.nginx.conf"), configuration)
      @pid = Process.spawn(*@place.for_upstream, *Processes.ending_with_us("TERM"), "/usr/sbin/nginx", "-e", "#{@work}/nginx.log", "-p", @work, "-c", path,
                           in: File::NULL, %i[out err] => File.join(@work, "output.log"))
      wait_until("nginx does not start: see #{@work}/nginx.log") { File.exist?("#{@work}/nginx.pid") }
      self
    end

    def stop
      return unless @pid

      Process.kill("QUIT", @pid)
      Process.kill("TERM", @pid)
      Process.wait(@pid)
      @pid = nil
    rescue Errno::ESRCH, Errno::ECHILD
      @pid = nil
    end

    # What came while the block ran, which made CALLS calls. [its result, Seen]
    def watching(calls)
      from = File.size(log)
      result = yield
      lines = []
      # A call is logged when it is over, which may be after the answer is there.
      wait_until("the upstream saw #{lines.size} calls of #{calls}", 2) { (lines = File.open(log) { |file| file.seek(from) && file.readlines }).size >= calls }
      [result, self.class.seen(lines)]
    end

    def self.seen(lines)
      calls = lines.map(&:split)
      first = calls.select { |number, *| number == "1" }
      Seen.new(calls: calls.size, opened: first.size, versions: calls.map { |call| call[1] }.tally, resumed: first.count { |call| call[2] == "r" })
    end

    private

    def log = File.join(@work, "calls.log")

    def free_port = TCPServer.open("127.0.0.1", 0) { |socket| socket.addr[1] }

    def certify
      authority_key, key = Array.new(2) { OpenSSL::PKey::EC.generate("prime256v1") }
      authority = certificate("Bench Authority", authority_key, nil, authority_key, "basicConstraints" => "CA:TRUE", "keyUsage" => "keyCertSign")
      server = certificate("api.bench.test", key, authority, authority_key, "subjectAltName" => "IP:#{@place.upstream_address}", "extendedKeyUsage" => "serverAuth")
      File.write("#{@work}/server.pem", server.to_pem)
      File.write("#{@work}/server.key", key.to_pem)
      File.write(certificates, (File.exist?(SYSTEM) ? File.read(SYSTEM) : "") + authority.to_pem)
    end

    def certificate(name, key, issuer, issuer_key, extensions)
      made = OpenSSL::X509::Certificate.new
      made.version, made.serial, made.public_key = 2, Random.rand(1 << 62), key
      made.subject = OpenSSL::X509::Name.new([["CN", name]])
      made.issuer = issuer ? issuer.subject : made.subject
      made.not_before, made.not_after = Time.now - 3600, Time.now + (7 * 86_400)
      factory = OpenSSL::X509::ExtensionFactory.new(issuer || made, made)
      extensions.each { |kind, value| made.add_extension(factory.create_extension(kind, value, kind == "basicConstraints")) }
      made.sign(issuer_key, "SHA256")
    end

    def wait_until(complaint, patience = PATIENCE)
      limit = Process.clock_gettime(Process::CLOCK_MONOTONIC) + patience
      until yield
        raise Failed, complaint if Process.clock_gettime(Process::CLOCK_MONOTONIC) > limit

        sleep 0.005
      end
    end
  end
end
