# frozen_string_literal: true

# What Debian's Capistrano needs to deploy to this machine: an sshd of its own that only this process can enter, a git repository, and the lines of
# examples/deploy/capistrano with this machine in the places of the example's. Serves nothing and asserts nothing.
require "etc"
require "fileutils"
require "socket"

class CapistranoDeployment
  class Failed < StandardError; end

  CHECKOUT = File.expand_path("../..", __dir__)
  EXAMPLE = File.join(CHECKOUT, "examples/deploy/capistrano")
  # For `require "paceline/capistrano"`.
  ENVIRONMENT = { "RUBYLIB" => File.join(CHECKOUT, "gem/lib") }.freeze
  PROGRAMS = %w[cap git ssh-keygen /usr/sbin/sshd].freeze
  # Seconds until sshd listens.
  LIMIT = 30

  # The pid of sshd.
  attr_reader :sshd

  # Programs that are not installed.
  def self.missing
    folders = ENV.fetch("PATH", "").split(":")
    PROGRAMS.reject { |program| program.start_with?("/") ? File.executable?(program) : folders.any? { |folder| File.executable?(File.join(folder, program)) } }
  end

  # DIR: a folder that is there and empty.
  def initialize(dir)
    @dir = dir
    keys
    configuration
    start
    sh "git", "init", "-q", "-b", "master", repository
    recipe
  end

  # Where releases, shared/ and `current` come to be.
  def site = File.join(@dir, "srv")

  # Commits FILES, {path => text}.
  def release(files)
    files.each do |name, text|
      FileUtils.mkdir_p(File.dirname(File.join(repository, name)))
      File.write(File.join(repository, name), text)
    end
    sh "git", "-C", repository, "add", "."
    sh "git", "-C", repository, "-c", "user.name=test", "-c", "user.email=test@localhost", "commit", "-qm", "Another version"
  end

  # Runs `cap production TASK`; what it printed.
  def cap(task) = sh(*command(task), chdir: local, env: ENVIRONMENT)

  # The pid of `cap production TASK`, which was started.
  def begin_cap(task) = Process.spawn(ENVIRONMENT, *command(task), chdir: local, in: File::NULL, %i[out err] => [File.join(@dir, "cap.log"), "a"])

  def close
    return unless @sshd

    Process.kill(:TERM, @sshd)
    Process.wait(@sshd)
  rescue Errno::ESRCH, Errno::ECHILD
    nil # something else has ended it
  ensure
    @sshd = nil
  end

  private

  def command(task) = ["cap", "production", task]
  def repository = File.join(@dir, "repo")
  def local = File.join(@dir, "local")

  # Of the host and of the user.
  def keys
    %w[host user].each { |name| sh "ssh-keygen", "-q", "-t", "rsa", "-m", "PEM", "-N", "", "-f", key(name) }
  end

  def key(name) = File.join(@dir, "#{name}_key")

  def configuration
    @port = TCPServer.open("127.0.0.1", 0) { |socket| socket.addr[1] }
    File.write(File.join(@dir, "known_hosts"), "[127.0.0.1]:#{@port} #{File.read("#{key("host")}.pub")}")
    FileUtils.cp("#{key("user")}.pub", File.join(@dir, "authorized_keys"))
    File.write(File.join(@dir, "sshd_config"), <<~CONFIG)
      ListenAddress 127.0.0.1:#{@port}
      HostKey #{key("host")}
      AuthorizedKeysFile #{@dir}/authorized_keys
      PidFile none
      StrictModes no
      UsePAM #{Process.uid.zero? ? "yes" : "no"}
      PermitRootLogin prohibit-password
      PasswordAuthentication no
      KbdInteractiveAuthentication no
    CONFIG
  end

  def start
    FileUtils.mkdir_p("/run/sshd") if Process.uid.zero?
    @sshd = Process.spawn("/usr/sbin/sshd", "-D", "-e", "-f", File.join(@dir, "sshd_config"), %i[out err] => log)
    limit = Process.clock_gettime(Process::CLOCK_MONOTONIC) + LIMIT
    until listening?
      raise Failed, "sshd does not listen: #{File.read(log)}" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > limit

      sleep 0.01
    end
  end

  def listening?
    TCPSocket.open("127.0.0.1", @port, &:close)
    true
  rescue SystemCallError
    false
  end

  def log = File.join(@dir, "sshd.log")

  def recipe
    FileUtils.cp_r(File.join(EXAMPLE, "."), local)
    File.write(File.join(local, "config/deploy.rb"), <<~RUBY, mode: "a")

      set :repo_url, "#{repository}"
      set :deploy_to, "#{site}"
      set :keep_releases, 2
    RUBY
    File.write(File.join(local, "config/deploy/production.rb"), <<~RUBY)
      server "127.0.0.1", user: "#{Etc.getpwuid.name}", port: #{@port}, roles: %w[app web db],
        ssh_options: { keys: ["#{key("user")}"], keys_only: true, config: false, auth_methods: ["publickey"],
                       user_known_hosts_file: "#{@dir}/known_hosts", verify_host_key: :always }
    RUBY
  end

  def sh(*command, chdir: @dir, env: {})
    output = IO.popen(env, command, chdir: chdir, err: %i[child out], &:read)
    raise Failed, "#{command.join(" ")}\n#{output}\n#{File.read(log) if File.exist?(log)}" unless $?.success?

    output
  end
end
