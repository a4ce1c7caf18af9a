# frozen_string_literal: true

# The ways to restart that `bin/bench restart` compares: how each server is started for it, and how it is told.
require_relative "../lib/servers"

module Bench
  # RELEASES: deployed by switching a symlink, or :capistrano. NEEDS: a word of `paceline --help` without which the binary does not offer it. MODE: what the
  # new version is like (see bench/apps/restart). TELL is given a RestartedServer and the app.
  RestartWay = Struct.new(:name, :title, :server, :releases, :needs, :mode, :tell, keyword_init: true) do
    def paceline? = server.name == "paceline"
    def good? = mode == "ok"
  end

  module RestartWays
    PEERS = Servers::PEERS
    # Stands for the application's folder in a command.
    ROOT = "{root}"

    def self.paceline(*more)
      Server.new(
        name: "paceline", worker: /\Apaceline worker/, threads: Servers::THREADS, note: "#{Servers::WORKERS} x #{Servers::THREADS} threads",
        command: lambda do |port, work|
          [Servers.paceline, "-C", "-", "-b", "tcp://127.0.0.1:#{port}", "-e", "production", "-w", Servers::WORKERS, "-t", Servers::THREADS, "-q",
           "--pidfile", "#{work}/pid", *Servers::AS_ROOT, *more]
        end
      )
    end

    def self.puma(name, note, *more)
      Server.new(
        name: name, package: "puma", worker: /cluster worker/, threads: Servers::THREADS, note: "#{Servers::WORKERS} x #{Servers::THREADS} threads, #{note}",
        command: lambda do |port, work|
          ["puma", "-C", "-", "-b", "tcp://127.0.0.1:#{port}", "-e", "production", "-w", Servers::WORKERS, "-t", "#{Servers::THREADS}:#{Servers::THREADS}",
           "--pidfile", "#{work}/pid", "-q", *more]
        end
      )
    end

    def self.unicorn
      Server.new(
        name: "unicorn", package: "unicorn", worker: /unicorn worker\[/, threads: 1, note: "#{Servers::WORKERS} processes, preloaded; the new master's first worker sends QUIT to the old one",
        command: lambda do |port, work|
          ["env", "BENCH_PIDFILE=#{work}/pid", "unicorn", "-c", File.join(PEERS, "unicorn_restart.rb"), "-l", "127.0.0.1:#{port}", "-E", "production", "--no-default-middleware"]
        end
      )
    end

    def self.passenger
      Servers.named(["passenger"]).first
    end

    def self.signal(name) = ->(server, _app) { server.signal_main(name) }
    TOUCH = ->(_server, app) { app.touch }

    def self.all
      front, front_here = paceline, paceline("--dir", ROOT)
      good = lambda do |name, title, server, tell, releases: false, needs: nil|
        RestartWay.new(name: name, title: title, server: server, tell: tell, releases: releases, needs: needs, mode: "ok")
      end
      bad = lambda do |name, title, server, tell, mode|
        RestartWay.new(name: name, title: title, server: server, tell: tell, mode: mode)
      end
      hot, phased = puma("puma", "preloaded", "--preload"), puma("puma", "not preloaded")
      [
        good["restart.txt", "touch tmp/restart.txt", front, TOUCH],
        good["usr1", "SIGUSR1", front, signal("USR1")],
        good["wait", "paceline restart --wait", front, ->(server, app) { server.command_beside("restart", "--wait", app) }, needs: "restart"],
        good["symlink", "`current` switched, restart.txt touched", front_here, TOUCH, releases: true],
        good["capistrano", "`cap production deploy`, by git and ssh", front_here, ->(server, app) { server.push_beside(app) }, releases: :capistrano],
        good["usr2", "SIGUSR2 (a new binary)", front, signal("USR2"), needs: "upgrade"],
        good["upgrade", "paceline upgrade", front, ->(server, app) { server.command_beside("upgrade", app) }, needs: "upgrade"],
        good["puma-hot", "hot restart, SIGUSR2", hot, signal("USR2")],
        good["puma-phased", "phased restart, SIGUSR1", phased, signal("USR1")],
        good["passenger", "touch tmp/restart.txt", passenger, TOUCH],
        good["unicorn", "SIGUSR2, then QUIT", unicorn, signal("USR2")],
        bad["fails", "does not load, SIGUSR1", front, signal("USR1"), "raise"],
        bad["slow", "loads for 5 s more, SIGUSR1", front, signal("USR1"), "slow"],
        bad["broken", "answers 500, SIGUSR1", front, signal("USR1"), "broken"],
        bad["puma-hot-fails", "does not load, SIGUSR2", hot, signal("USR2"), "raise"],
        bad["puma-phased-fails", "does not load, SIGUSR1", phased, signal("USR1"), "raise"],
        bad["passenger-fails", "does not load", passenger, TOUCH, "raise"],
        bad["unicorn-fails", "does not load, SIGUSR2", unicorn, signal("USR2"), "raise"]
      ]
    end
  end
end
