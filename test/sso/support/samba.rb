# A domain controller of Active Directory (Samba) for one test. It listens on its well-known ports, so it runs only in a network namespace of its own, with
# /etc/hosts and /etc/resolv.conf of its own: test/sso/samba makes those.
require "fileutils"
require "open3"
require "socket"
require "tmpdir"
require_relative "../../e2e/support/certificates"

class Samba
  REALM = "AD.TEST"
  BASE = "DC=ad,DC=test"
  PASSWORD = "Correct-horse.7"
  # An address that is not loopback's, or the resolver would hide it; it is the loopback interface's all the same.
  ADDRESS = "10.53.0.1"
  PATH = "#{ENV.fetch("PATH")}:/usr/sbin:/sbin"
  PORTS = [53, 88, 389, 636].freeze
  DEADLINE = 60

  def self.missing = %w[samba samba-tool ldbmodify kinit kvno].reject { |name| PATH.split(":").any? { |folder| File.executable?(File.join(folder, name)) } }

  attr_reader :dir

  def initialize
    @dir = Dir.mktmpdir("paceline-samba-")
    authority = Authority.new
    authority.file(dir)
    authority.write(dir, "tls", "dc1.ad.test")
    provision
    File.write(file("krb5.conf"), <<~CONF)
      [libdefaults]
        default_realm = #{REALM}
        dns_lookup_kdc = true
        dns_canonicalize_hostname = false
        rdns = false
      [domain_realm]
        .ad.test = #{REALM}
    CONF
  end

  def file(name) = File.join(dir, name)

  def env
    { "PATH" => PATH, "KRB5_CONFIG" => file("krb5.conf"), "KRB5CCNAME" => "FILE:#{file("cc")}", "KRB5RCACHENAME" => "file2:#{file("replay")}" }
  end

  def tool(*arguments) = run("samba-tool", *arguments, "-s", file("etc/smb.conf"))

  def change(dn, attribute, value)
    run("ldbmodify", "-H", file("private/sam.ldb"), stdin: "dn: #{dn},#{BASE}\nchangetype: modify\nreplace: #{attribute}\n#{attribute}: #{value}\n")
  end

  # A service account with AES keys, and its keytab.
  def service(name, account)
    tool("user", "create", account, PASSWORD)
    tool("spn", "add", name, account)
    change("CN=#{account},CN=Users", "msDS-SupportedEncryptionTypes", 24)
    tool("domain", "exportkeytab", file("http.keytab"), "--principal=#{name}")
    file("http.keytab")
  end

  def start
    @pid = Process.spawn({ "PATH" => PATH }, "samba", "--foreground", "--no-process-group", "--model=single", "--debug-stdout", "-s", file("etc/smb.conf"),
      out: file("samba.out"), err: %i[child out], pgroup: true)
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + DEADLINE
    begin
      PORTS.each { |port| TCPSocket.open(ADDRESS, port).close }
    rescue SystemCallError
      raise "samba does not listen: #{File.read(file("samba.out"))}" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
      Thread.pass
      retry
    end
    self
  end

  def remove
    if @pid
      Process.kill("TERM", -@pid)
      Process.wait(@pid)
    end
    FileUtils.rm_rf(dir)
  end

  def sign_in(name) = run("kinit", name, stdin: "#{PASSWORD}\n")

  def run(*command, stdin: "")
    output, status = Open3.capture2e(env, *command, stdin_data: stdin)
    raise "#{command.join(" ")}: #{output}" unless status.success?
    output
  end

  private

  def provision
    FileUtils.mkdir_p(file("run"))
    options = {
      "interfaces" => "lo", "bind interfaces only" => "yes", "pid directory" => file("run"), "ncalrpc dir" => file("run/ncalrpc"),
      "winbindd socket directory" => file("run/winbindd"), "ntp signd socket directory" => file("run/ntp"), "log file" => file("log.%m"),
      "server services" => "ldap, cldap, kdc, rpc, dns", "tls cafile" => file("authority.pem"), "tls certfile" => file("tls.pem"), "tls keyfile" => file("tls.key"),
    }
    run("samba-tool", "domain", "provision", "--targetdir=#{dir}", "--realm=#{REALM}", "--domain=AD", "--server-role=dc", "--dns-backend=SAMBA_INTERNAL",
      "--adminpass=#{PASSWORD}", "--host-name=dc1", "--host-ip=#{ADDRESS}", *options.map { |name, value| "--option=#{name}=#{value}" })
    # It would be itself, as resolv.conf says, and a question about another domain would go round for ever.
    configuration = File.read(file("etc/smb.conf"))
    File.write(file("etc/smb.conf"), configuration.sub(/^\s*dns forwarder = .*\n/, ""))
  end
end
