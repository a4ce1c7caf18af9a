# frozen_string_literal: true

# What each section stands on: a place, the API that is called in it, and Paceline with the application.
require_relative "../lib/apps"
require_relative "../lib/asked_process"
require_relative "places"
require_relative "server"
require_relative "upstream"
require_relative "ways"

module Bench
  class OutboundScene
    PROGRAM = File.join(__dir__, "measured.rb")

    attr_reader :place, :upstream

    def initialize(place, processes)
      @place = place
      @processes = processes
      @work = File.join(Apps::WORK, "outbound", place.name)
      @upstream = OutboundUpstream.new(place, File.join(@work, "upstream"))
    end

    # There is a network and an API while the block runs. Returns how many processors did other work meanwhile.
    def run
      busy, used, began = Processes.machine_busy, own, now
      begin
        @place.start
        @upstream.start
        @processes.own(@upstream.pid, *@place.pids) { yield self }
      ensure
        @upstream.stop
        @place.stop
      end
      [Processes.machine_busy - busy - own + used, 0].max / (now - began)
    end

    # Yields a running OutboundServer.
    def serving(**shape)
      server = OutboundServer.new(@place, @upstream, @processes, @work, **shape)
      yield server.start
    ensure
      server&.stop
    end

    # Yields a fresh process that calls. EGRESS: the front's socket.
    def calling(way, egress)
      environment = { "SSL_CERT_FILE" => @upstream.certificates, **way.environment(egress) }
      process = AskedProcess.new("-I", OutboundServer::GEM, PROGRAM, way.caller, @upstream.url(way.server), @upstream.certificates, environment: environment,
                                 prefix: @place.for_callers)
      @processes.own(process.pid) { yield process }
    ensure
      process&.close
    end

    private

    # Processor seconds of this process and of all it has waited for.
    def own = Process.times.to_a.sum
    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
