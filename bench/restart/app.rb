# frozen_string_literal: true

# The application that `bin/bench restart` deploys, as files: one folder, or releases with a `current` symlink as Capistrano has them.
require "fileutils"
require_relative "../lib/apps"

module Bench
  class RestartApp
    SOURCE = File.join(Apps::HERE, "bench/apps/restart/config.ru")

    # Where the server is started. `name` and `environment` are what RunningServer wants of an app.
    attr_reader :directory, :environment, :version

    def initialize(name, releases:, boot_ms:, work_ms:)
      @base = File.join(Apps::WORK, "restart", name)
      @releases = releases
      @environment = { "RESTART_BOOT_MS" => boot_ms.to_s, "RESTART_WORK_MS" => work_ms.to_s }
      @version = 0
      FileUtils.rm_rf(@base)
      @directory = releases ? File.join(@base, "current") : @base
      deploy("ok")
    end

    def name = :restart

    # The files of the next version are there when this returns; nobody is told.
    def deploy(mode)
      @version += 1
      folder = @releases ? File.join(@base, "releases", format("%05d", @version)) : @base
      FileUtils.mkdir_p(File.join(folder, "tmp"))
      FileUtils.cp(SOURCE, folder)
      File.write(File.join(folder, "version"), "#{@version}\n")
      File.write(File.join(folder, "mode"), "#{mode}\n")
      switch(folder) if @releases
    end

    # Processes that belong to it, and not to the server.
    def pids = []
    def close = nil

    def touch = FileUtils.touch(File.join(@directory, "tmp/restart.txt"))

    private

    # As `ln -sfn` and `mv -T`: there is always one.
    def switch(folder)
      File.symlink(folder, "#{@directory}.new")
      File.rename("#{@directory}.new", @directory)
    end
  end
end
