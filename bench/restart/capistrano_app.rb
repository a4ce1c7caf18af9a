# frozen_string_literal: true

# The application of `bin/bench restart`, deployed by Debian's Capistrano from a git repository over an sshd of this machine's own. It looks like a RestartApp; a
# new version is pushed by `begin_push`, and nobody else is told of it: what the Capfile requires touches tmp/restart.txt.
require "fileutils"
require_relative "../../test/capistrano/deployment"
require_relative "../lib/running_server"
require_relative "app"

module Bench
  class CapistranoApp
    attr_reader :environment, :version

    def initialize(name, boot_ms:, work_ms:)
      missing = CapistranoDeployment.missing
      raise RunningServer::Failed, "not installed: there is no `#{missing.first}`" if missing.any?

      base = File.join(Apps::WORK, "restart", name)
      FileUtils.rm_rf(base)
      FileUtils.mkdir_p(base)
      @environment = { "RESTART_BOOT_MS" => boot_ms.to_s, "RESTART_WORK_MS" => work_ms.to_s }
      @version = 0
      @deployment = CapistranoDeployment.new(base)
      deploy("ok")
      @deployment.cap("deploy")
    rescue CapistranoDeployment::Failed => e
      close
      raise RunningServer::Failed, e.message
    end

    def name = :restart
    def directory = File.join(@deployment.site, "current")

    # Processes that are not the server's.
    def pids = [@deployment.sshd]

    # The next version is in the repository when this returns.
    def deploy(mode)
      @version += 1
      @deployment.release("config.ru" => File.read(RestartApp::SOURCE), "version" => "#{@version}\n", "mode" => "#{mode}\n")
    end

    # The pid of `cap production deploy`, which was started.
    def begin_push = @deployment.begin_cap("deploy")

    def close = @deployment&.close
  end
end
