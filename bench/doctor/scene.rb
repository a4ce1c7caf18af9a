# frozen_string_literal: true

# Where the applications with faults are served: the servers of both variants, the upstream that they call, and the folders that they are laid into.
require "tmpdir"
require_relative "../lib/apps"
require_relative "../lib/asked_process"
require_relative "../lib/reaped_server"
require_relative "fault"
require_relative "scarce_memory"

module Bench
  class DoctorScene
    UPSTREAM = File.join(__dir__, "upstream.rb")
    WORKERS = { "paceline" => /\Apaceline worker/, "puma" => /cluster worker/ }.freeze

    # Yields a scene, whose folders and processes are gone afterwards.
    def self.open
      Dir.mktmpdir("paceline-doctor") do |work|
        scene = new(work)
        yield scene
      ensure
        scene&.close
      end
    end

    def initialize(work)
      @work = work
      @upstream = AskedProcess.new(UPSTREAM, work)
      @ports = @upstream.ask("ports")
    end

    def close
      @memory&.close
      @upstream.close
    end

    # A folder that is gone afterwards.
    attr_reader :work

    # For everything that loads an application. More may be put into it.
    def environment
      @environment ||= { "FAULT_UPSTREAM" => "https://localhost:#{@ports["web"]}", "FAULT_SMTP_PORT" => @ports["mail"].to_s, "SSL_CERT_FILE" => File.join(@work, "authority.pem"),
        "PACELINE_GEM_DIR" => File.join(Servers::HERE, "gem"), "RAILS_ENV" => "production", "RACK_ENV" => "production" }
    end

    def folder(fault, variant) = File.join(@work, fault.name, variant)

    # FAULT laid afresh in both variants.
    def lay(fault)
      DoctorFault::VARIANTS.each { |variant| fault.lay(variant, folder(fault, variant), environment) }
    end

    def clear(fault) = FileUtils.rm_rf(File.join(@work, fault.name))

    # Yields a server for each variant.
    def serving(fault)
      servers = DoctorFault::VARIANTS.map { |variant| server(fault, variant) }
      servers.each(&:start)
      yield(*servers)
    ensure
      servers&.each(&:stop)
    end

    # Yields a server of one variant.
    def serving_one(fault, variant)
      server = server(fault, variant).start
      yield server
    ensure
      server&.stop
    end

    # A server of one variant, not yet started.
    def server(fault, variant)
      server = Server.new(name: "#{fault.name}-#{variant}", worker: WORKERS.fetch(fault.server), workers: 1, command: ->(port, _) { within(fault) + command(fault.server, port) })
      app = App.new(name: fault.name, directory: folder(fault, variant), environment: environment)
      ReapedServer.new(server, app, File.join(@work, "servers"), fault.paths.last)
    end

    private

    # Words before a command that has less memory than it wants.
    def within(fault)
      return [] unless fault.memory

      (@memory ||= ScarceMemory.new(@work)).group(fault.memory << 20)
    end

    # Puma reads the application's config/puma.rb.
    def command(server, port)
      address = "tcp://127.0.0.1:#{port}"
      server == "puma" ? ["puma", "-b", address, "-e", "production", "-q"] : [Servers.paceline, "-b", address, "-q", *Servers::AS_ROOT]
    end
  end
end
