# Debian's Apache with mod_auth_gssapi for one test: its own folder and configuration, a free port of loopback, a folder of files. It touches nothing of the
# machine's own Apache, and asserts nothing itself.
require "fileutils"
require "socket"
require "tmpdir"
require_relative "faketime"

class Apache
  PROGRAM = "/usr/sbin/apache2"
  MODULES = "/usr/lib/apache2/modules"
  DEADLINE = 20

  def self.missing = [PROGRAM, "#{MODULES}/mod_auth_gssapi.so"].reject { |path| File.exist?(path) }

  attr_reader :dir, :port, :pid

  # `options`: lines for the protected folder, beside AuthType. `certificate`: [certificate, key]; without it by http.
  def initialize(kdc, keytab, options: [], certificate: nil)
    @kdc = kdc
    @dir = Dir.mktmpdir("paceline-apache-")
    File.chmod(0o755, dir)
    # Root's Apache becomes another account, which reads the keytab.
    @user = Process.uid.zero? ? "www-data" : nil
    @keytab = file("http.keytab")
    FileUtils.cp(keytab, @keytab)
    FileUtils.chown(@user, nil, @keytab) if @user
    File.chmod(0o600, @keytab)
    # The KDC's folder is its owner's alone.
    FileUtils.cp(kdc.file("krb5.conf"), file("krb5.conf"))
    @port = TCPServer.open("127.0.0.1", 0) { |socket| socket.addr[1] }
    FileUtils.mkdir_p([file("htdocs"), file("cache")])
    FileUtils.chown(@user, nil, file("cache")) if @user
    File.write(file("htdocs/index.html"), "inside\n")
    File.write(file("apache.conf"), configuration(options, certificate))
  end

  def file(name) = File.join(dir, name)
  def keytab = @keytab
  def log = File.exist?(file("error.log")) ? File.read(file("error.log")) : ""

  # `clock`: at what time it runs.
  def start(clock: nil)
    env = @kdc.env.merge("KRB5_CONFIG" => file("krb5.conf"), "KRB5RCACHENAME" => "file2:#{file("cache/replay")}", "KRB5_KTNAME" => @keytab)
    @pid = Process.spawn(env, *Faketime.command(clock), PROGRAM, "-D", "FOREGROUND", "-f", file("apache.conf"), out: file("out"), err: %i[child out], pgroup: true)
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + DEADLINE
    begin
      TCPSocket.open("127.0.0.1", port).close
    rescue SystemCallError
      raise "Apache does not listen: #{File.read(file("out"))}#{log}" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
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

  def configuration(options, certificate)
    tls = certificate ? ["SSLEngine on", "SSLCertificateFile #{certificate[0]}", "SSLCertificateKeyFile #{certificate[1]}"] : []
    modules = %w[mpm_event authn_core authz_core authz_user auth_gssapi session session_cookie headers dir mime ssl socache_shmcb http2]
    <<~CONF
      ServerName web.example.test
      ServerRoot #{dir}
      DefaultRuntimeDir #{dir}
      PidFile #{file("pid")}
      ErrorLog #{file("error.log")}
      LogLevel warn auth_gssapi:info
      Listen 127.0.0.1:#{port}
      #{modules.map { |name| "LoadModule #{name}_module #{MODULES}/mod_#{name}.so" }.join("\n")}
      #{"User #{@user}\nGroup #{@user}" if @user}
      StartServers 2
      ThreadsPerChild 25
      TypesConfig /etc/mime.types
      DocumentRoot #{file("htdocs")}
      DirectoryIndex index.html
      Protocols h2 http/1.1
      #{tls.join("\n")}
      Header always set X-Remote-User "expr=%{REMOTE_USER}"
      <Directory #{file("htdocs")}>
        AuthType GSSAPI
        AuthName "peer"
        GssapiCredStore keytab:#{@keytab}
        #{options.join("\n  ")}
        Require valid-user
      </Directory>
    CONF
  end
end
