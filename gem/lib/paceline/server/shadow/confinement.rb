# frozen_string_literal: true

# Has the kernel hold a shadow, what it starts and the programs that they run, to what the guards promise: nothing is written but the shadow's own folder and
# the application's tmp/cache, no TCP connection is opened that no guard has let through, and no other process is signalled. The guards stay: they say which line
# of the application it was. What the kernel does not know is told, and never passed over.
require_relative "confinement/helpers"
require_relative "confinement/inherited"
require_relative "confinement/landlock"
require_relative "confinement/system_calls"

module Paceline
  module Server
    module Shadow
      module Confinement
        # What may be written besides: it goes nowhere, or stays in this process.
        DEVICES = %w[/dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty].freeze
        # Its own priority and such (background.rb).
        PROCESS = "/proc/self"
        # Names are asked for there when an answer is too long for a datagram.
        DNS = 53
        private_constant :PROCESS, :DNS

        class << self
          # What the kernel does not hold this process to, of "files", "connections", "signals" and "calls" (those that change files' modes, the machine or
          # other processes).
          attr_reader :missing

          # Whether the kernel keeps files from being written.
          def files?
            !missing.nil? && !missing.include?("files")
          end

          # Confines this thread, and the process with it if it has no other: once, before any code of the application runs. `folders`: what may be written.
          def enter(folders)
            Inherited.only_read
            @helpers = Helpers.new
            abi = Landlock.abi
            @missing = []
            # The kernel forgets a rule for what nobody has open, and makes this folder anew.
            @process = Dir.open(PROCESS)
            confine_files(abi, [*folders, *DEVICES, *Quiet.kept, PROCESS])
            confine_calls(abi)
          end

          # Runs the block as if nothing were confined, and returns its value. For what a guard has looked at and let through.
          def outside(&block)
            @helpers ? @helpers.call(&block) : yield
          end

          # Whether this thread is one of those that do so.
          def outside?
            @helpers ? @helpers.here? : false
          end

          private

          def confine_files(abi, writable)
            @missing << "files" if abi < 1
            @missing << "connections" if abi < Landlock::TCP_SINCE
            @missing << "signals" if abi < Landlock::SCOPED_SINCE
            return if abi < 1

            SystemCalls.renounce_privileges
            Landlock.enter(abi, writable: writable, ports: [DNS, *database_ports])
          rescue SystemCallError, NotImplementedError
            @missing = %w[files connections signals]
          end

          def confine_calls(abi)
            raise NotImplementedError unless SystemCalls.known?

            SystemCalls.renounce_privileges
            SystemCalls.filter(shortening: abi < Landlock::SHORTENED_SINCE)
          rescue SystemCallError, NotImplementedError
            @missing << "calls"
          end

          # Of databases whose drivers no guard knows.
          def database_ports
            guarded = /\A(?:sqlite|postg|mysql|trilogy)/
            ConnectionPools.all.map(&:db_config).reject { |config| config.adapter.to_s.match?(guarded) }.filter_map do |config|
              port = config.configuration_hash[:port] || { "sqlserver" => 1433, "oracle_enhanced" => 1521 }[config.adapter.to_s]
              Integer(port, exception: false) if port
            end.uniq
          end
        end
      end
    end
  end
end
