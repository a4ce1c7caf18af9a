# frozen_string_literal: true

# A server under measurement while others run beside it: its processes are those below its own reaper.
require_relative "reaper"
require_relative "running_server"

module Bench
  class ReapedServer < RunningServer
    def initialize(server, app, work, ready)
      super(server, app, nil, work, ready)
    end

    # To look at this server's processes only.
    def measured_processes
      @processes
    end

    private

    def launch
      @reaper = Reaper.new(*arguments)
      @processes = Processes.new(@reaper.pid)
      @reaper.child
    rescue Reaper::Failed => e
      raise Failed, "#{server.name} can't be started: #{e.message}"
    end

    def ended?
      @reaper.ended?
    end

    def reap
      return if @reaped || processes.any?

      @reaper.wait
      @reaped = true
    end
  end
end
