# A KDC of MIT Kerberos for one test: its own folder, its own configuration, a free port of loopback. It touches nothing of the machine's own Kerberos.
require "fileutils"
require "open3"
require "socket"
require "tmpdir"
require_relative "faketime"

class Kdc
  REALM = "EXAMPLE.TEST"
  PASSWORD = "correct horse"
  # Debian has the programs of a server in sbin, which not everybody's PATH has.
  PATH = "#{ENV.fetch("PATH")}:/usr/sbin:/sbin"
  PROGRAMS = %w[krb5kdc kdb5_util kadmin.local kinit kvno ktutil].freeze
  DEADLINE = 20

  def self.missing
    PROGRAMS.reject { |name| PATH.split(":").any? { |folder| File.executable?(File.join(folder, name)) } } + Faketime.missing
  end

  attr_reader :dir, :port

  def initialize
    @dir = Dir.mktmpdir("paceline-kdc-")
    @port = TCPServer.open("127.0.0.1", 0) { |socket| socket.addr[1] }
    configure
    run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master")
    @processes = []
  end

  def env
    { "PATH" => PATH, "KRB5_CONFIG" => file("krb5.conf"), "KRB5_KDC_PROFILE" => file("kdc.conf"), "KRB5CCNAME" => "FILE:#{file("cc")}",
      "KRB5RCACHENAME" => "file2:#{file("replay")}" }
  end

  def file(name) = File.join(dir, name)

  # Begins to answer. `clock`: how far from the right time it is, such as "-3h".
  def start(clock: nil)
    pid = Process.spawn(env, *Faketime.command(clock), "krb5kdc", "-n", out: file("kdc.out"), err: %i[child out], pgroup: true)
    @processes << pid
    wait { TCPSocket.open("127.0.0.1", port).close }
    self
  end

  def stop
    @processes.each do |pid|
      Process.kill("TERM", -pid)
      Process.wait(pid)
    end
    @processes.clear
  end

  def remove
    stop
    FileUtils.rm_rf(dir)
  end

  def admin(command) = run("kadmin.local", "-r", REALM, "-q", command)

  def person(name, *options) = admin("addprinc #{options.join(" ")} -pw \"#{PASSWORD}\" #{name}")

  # A service, and its keytab.
  def service(name, keytab: "http.keytab")
    admin("addprinc -randkey #{name}")
    export(name, keytab: keytab)
  end

  # Changes the service's key and adds the new one to the keytab.
  def export(name, keytab: "http.keytab")
    admin("ktadd -k #{file(keytab)} #{name}")
    file(keytab)
  end

  # Gets somebody's first ticket. `clock`: at what time.
  def sign_in(name, *options, clock: nil)
    run(*Faketime.command(clock), "kinit", *options, name, stdin: "#{PASSWORD}\n")
  end

  # The tickets in the cache say that they end a day from now. What the KDC has encrypted says what it said.
  def pretend_that_tickets_last
    path = file("cc")
    bytes = File.binread(path)
    now = Time.now.to_i
    (0..bytes.bytesize - 12).each do |at|
      authenticated, starts, ends = bytes.byteslice(at, 12).unpack("N3")
      next unless [authenticated, starts].all? { |time| (now - 86_400..now).cover?(time) } && (starts..now).cover?(ends)
      bytes[at + 8, 4] = [now + 86_400].pack("N")
    end
    File.binwrite(path, bytes)
  end

  def run(*command, stdin: "", env: {})
    output, status = Open3.capture2e(self.env.merge(env), *command, stdin_data: stdin)
    raise "#{command.join(" ")}: #{output}" unless status.success?
    output
  end

  private

  def configure
    File.write(file("krb5.conf"), <<~CONF)
      [libdefaults]
        default_realm = #{REALM}
        dns_lookup_kdc = false
        dns_lookup_realm = false
        dns_canonicalize_hostname = false
        rdns = false
        udp_preference_limit = 1
      [realms]
        #{REALM} = {
          kdc = 127.0.0.1:#{port}
        }
      [domain_realm]
        .example.test = #{REALM}
        localhost = #{REALM}
    CONF
    File.write(file("kdc.conf"), <<~CONF)
      [kdcdefaults]
        kdc_listen = 127.0.0.1:#{port}
        kdc_tcp_listen = 127.0.0.1:#{port}
      [realms]
        #{REALM} = {
          database_name = #{file("principal")}
          key_stash_file = #{file("stash")}
          acl_file = #{file("acl")}
          max_life = 10h
        }
      [logging]
        kdc = FILE:#{file("kdc.log")}
    CONF
  end

  def wait
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + DEADLINE
    begin
      yield
    rescue SystemCallError
      raise "the KDC does not listen: #{File.read(file("kdc.out"))}" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
      Thread.pass
      retry
    end
  end
end
