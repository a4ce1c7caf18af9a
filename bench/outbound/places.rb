# frozen_string_literal: true

# Where callers and upstream are: on loopback, or in two network namespaces with a delaying wire between them. Entered by a prefix to commands; nothing of
# it is left when the processes are gone, however they went.
require "rbconfig"
require "socket"
require_relative "../lib/processes"

module Bench
  module OutboundPlaces
    # What to put before a command that shall not wait for the processor while others work: real-time priority, LEVEL above each other. Nothing where it is forbidden.
    def self.before_others(level)
      words = ["chrt", "--fifo", level.to_s]
      system(*words, "true", %i[out err] => File::NULL) ? words : []
    end

    # No delay: 127.0.0.1. FIRST: callers and upstream go before all else on the machine.
    class Local
      def initialize(first: false)
        @first = first ? OutboundPlaces.before_others(1) : []
      end

      def start = self
      def stop = nil
      def name = "local"
      def title = "on loopback"
      def pids = []
      def upstream_address = "127.0.0.1"
      def for_callers = @first
      def for_upstream = @first
    end

    # MILLISECONDS from one to the other and back. FIRST as above. CONGESTION: how TCP controls it; nil: as the machine does.
    class Delayed
      RELAY = File.join(__dir__, "relay.rb")
      NETWORK, CALLERS, UPSTREAM = %w[10.251.0.0/24 10.251.0.1 10.251.0.2].freeze
      PATIENCE = 10

      # The network can't be made.
      class Failed < StandardError; end

      attr_reader :pids

      def initialize(milliseconds, first: false, congestion: nil)
        @milliseconds = milliseconds
        @congestion = congestion
        @first = first ? OutboundPlaces.before_others(1) : []
        @pids = []
      end

      def name = "delayed"
      def title = "with #{@milliseconds.round} ms of round-trip time (TCP: #{@congestion || File.read("/proc/sys/net/ipv4/tcp_congestion_control").strip})"
      def upstream_address = UPSTREAM
      def for_callers = enter(@callers) + @first
      def for_upstream = enter(@upstream) + @first

      def start
        raise Failed, "only root can make network namespaces" unless Process.uid.zero?
        raise Failed, "there is no /dev/net/tun" unless File.exist?("/dev/net/tun")

        @callers, @upstream = Array.new(2) { namespace }
        ends = { "benchcall" => @callers, "benchup" => @upstream }
        wire(ends)
        { "benchcall" => [@callers, CALLERS], "benchup" => [@upstream, UPSTREAM] }.each do |device, (pid, address)|
          inside(pid, "ip", "link", "set", "lo", "up")
          inside(pid, "ip", "address", "add", "#{address}/24", "dev", device)
          inside(pid, "ip", "link", "set", device, "up")
          inside(pid, "ip", "route", "replace", NETWORK, "dev", device, "src", address, "congctl", @congestion) if @congestion
        end
        self
      end

      def stop
        @input&.close
        @pids.each do |pid|
          Process.kill("KILL", pid)
          Process.wait(pid)
        rescue Errno::ESRCH, Errno::ECHILD
          next
        end
        @pids = []
      end

      private

      def enter(pid) = ["nsenter", "--net=/proc/#{pid}/ns/net", "--"]

      def inside(pid, *command)
        system(*enter(pid), *command, %i[out err] => File::NULL) or raise Failed, "#{command.join(" ")} failed"
      end

      # A process that does nothing but have a network of its own.
      def namespace
        pid = Process.spawn(*Processes.ending_with_us("KILL"), "unshare", "--net", "sleep", "infinity", in: File::NULL, %i[out err] => File::NULL)
        @pids << pid
        limit = now + PATIENCE
        until File.readlink("/proc/#{pid}/ns/net") != File.readlink("/proc/self/ns/net")
          raise Failed, "`unshare --net` made no network namespace" if now > limit || Process.waitpid(pid, Process::WNOHANG)

          sleep 0.01
        end
        pid
      end

      # A wire waits for no processor.
      def wire(ends)
        reading, writing = IO.pipe
        input, @input = IO.pipe
        @pids << Process.spawn(*Processes.ending_with_us("KILL"), *OutboundPlaces.before_others(2), RbConfig.ruby, RELAY, (@milliseconds / 2.0).to_s, *ends.map { |name, pid| "#{name}=#{pid}" },
                               in: input, out: writing, close_others: true)
        [input, writing].each(&:close)
        reading.gets or raise Failed, "the delaying relay failed"
      ensure
        reading&.close
      end

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
