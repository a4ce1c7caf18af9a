# An OpenLDAP server for one test: its own folder, free ports of loopback. It touches nothing of the machine's own directory.
require "fileutils"
require "open3"
require "socket"
require "tmpdir"
require_relative "../../e2e/support/certificates"

class Slapd
  BASE = "dc=example,dc=test"
  PASSWORD = "correct horse"
  PATH = "#{ENV.fetch("PATH")}:/usr/sbin:/sbin"
  DEADLINE = 20

  def self.missing = %w[slapd slapadd].reject { |name| PATH.split(":").any? { |folder| File.executable?(File.join(folder, name)) } }

  attr_reader :dir, :port, :tls_port

  def initialize
    @dir = Dir.mktmpdir("paceline-slapd-")
    @port, @tls_port = Array.new(2) { TCPServer.open("127.0.0.1", 0) }.map { |socket| socket.addr[1].tap { socket.close } }
    authority = Authority.new
    authority.file(dir)
    authority.write(dir, "tls", "localhost", "127.0.0.1")
    FileUtils.mkdir_p(file("data"))
    File.write(file("slapd.conf"), configuration)
    output, status = Open3.capture2e({ "PATH" => PATH }, "slapadd", "-q", "-f", file("slapd.conf"), stdin_data: entries)
    raise output unless status.success?
  end

  def file(name) = File.join(dir, name)

  def url = "ldap://localhost:#{port}"
  def tls_url = "ldaps://localhost:#{tls_port}"
  def trust = "ca=#{file("authority.pem")}"
  def account = "account=cn=admin,#{BASE}:#{PASSWORD}"

  def start
    @pid = Process.spawn({ "PATH" => PATH }, "slapd", "-d", "0", "-f", file("slapd.conf"), "-h", "ldap://127.0.0.1:#{port} ldaps://127.0.0.1:#{tls_port}",
      out: file("slapd.out"), err: %i[child out])
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + DEADLINE
    begin
      [port, tls_port].each { |port| TCPSocket.open("127.0.0.1", port).close }
    rescue SystemCallError
      raise "slapd does not listen: #{File.read(file("slapd.out"))}" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
      Thread.pass
      retry
    end
    self
  end

  def stop
    return unless @pid
    Process.kill("TERM", @pid)
    Process.wait(@pid)
    @pid = nil
  end

  def remove
    stop
    FileUtils.rm_rf(dir)
  end

  private

  def configuration
    <<~CONF
      include /etc/ldap/schema/core.schema
      include /etc/ldap/schema/cosine.schema
      include /etc/ldap/schema/nis.schema
      include /etc/ldap/schema/inetorgperson.schema
      modulepath /usr/lib/ldap
      moduleload back_mdb
      pidfile #{file("slapd.pid")}
      TLSCACertificateFile #{file("authority.pem")}
      TLSCertificateFile #{file("tls.pem")}
      TLSCertificateKeyFile #{file("tls.key")}
      database mdb
      suffix "#{BASE}"
      rootdn "cn=admin,#{BASE}"
      rootpw "#{PASSWORD}"
      directory #{file("data")}
      access to attrs=userPassword by anonymous auth by * none
      access to * by users read by anonymous auth
    CONF
  end

  def entries
    people = { "alice" => "people", "bob" => "people", "twin" => "people", "odd(*)\\,name" => "people" }.map { |uid, unit| person(uid, unit) }
    groups = { "staff" => "uid=alice,ou=people,#{BASE}", "everybody" => "cn=staff,ou=groups,#{BASE}", "circle" => "cn=everybody,ou=groups,#{BASE}" }
    [<<~TOP, *people, person("twin", "others"), *groups.map { |name, member| group(name, member) }, posix("operators", "alice")].join("\n")
      dn: #{BASE}
      objectClass: dcObject
      objectClass: organization
      o: Example
      dc: example

      dn: ou=people,#{BASE}
      objectClass: organizationalUnit

      dn: ou=others,#{BASE}
      objectClass: organizationalUnit

      dn: ou=groups,#{BASE}
      objectClass: organizationalUnit
    TOP
  end

  def person(uid, unit)
    <<~ENTRY
      dn: uid=#{uid.gsub(/[,\\]/) { |sign| "\\#{sign}" }},ou=#{unit},#{BASE}
      objectClass: inetOrgPerson
      cn: #{uid}
      sn: Example
      uid: #{uid}
      mail: #{uid.tr("^a-z", "")}@example.test
      userPassword: #{PASSWORD}
    ENTRY
  end

  # "everybody" and "circle" contain each other.
  def group(name, member)
    circle = name == "everybody" ? "member: cn=circle,ou=groups,#{BASE}\n" : ""
    "dn: cn=#{name},ou=groups,#{BASE}\nobjectClass: groupOfNames\nmember: #{member}\n#{circle}"
  end

  def posix(name, member)
    "dn: cn=#{name},ou=groups,#{BASE}\nobjectClass: posixGroup\ngidNumber: 7\nmemberUid: #{member}\n"
  end
end
