# frozen_string_literal: true

# What keeps a shadow from doing harm: a guard for each way in which an application may write. They are hooks in libraries, put there as soon as a
# library's class is defined, in this process alone. They never load a library themselves.
require_relative "confinement"
require_relative "connection_pools"
require_relative "current_request"
require_relative "held_clock"
require_relative "seeded_random"
require_relative "outbound"
require_relative "guards/active_record_connections"
require_relative "guards/descendants"
require_relative "guards/caches"
require_relative "guards/calls_in_c"
require_relative "guards/curl"
require_relative "guards/files"
require_relative "guards/job_queues"
require_relative "guards/jobs"
require_relative "guards/kernel_refusals"
require_relative "guards/mail"
require_relative "guards/memcached"
require_relative "guards/mongo"
require_relative "guards/mysql"
require_relative "guards/paceline_records"
require_relative "guards/postgresql"
require_relative "guards/programs"
require_relative "guards/pstore"
require_relative "guards/redis"
require_relative "guards/sessions"
require_relative "guards/signals"
require_relative "guards/sockets"
require_relative "guards/sqlite"

module Paceline
  module Server
    module Shadow
      class Guards
        # A guard answers `there?` (whether all that it needs of its library is defined: it is asked at the end of each class) and `install`, which is called once.
        ALL = [
          HeldClock, HeldClock::Dates, SeededRandom, SeededRandom::OpenSSL, KernelRefusals, Files, Files::GZIP, SQLite, PostgreSQL, ActiveRecordConnections,
          ActiveRecordConnections::Adapter, PStore, PStore::OfPaceline, PacelineRecords, PacelineRecords::OfCache, Mail, Mail::SMTP, Jobs,
          *JobQueues::ALL, *Redis::ALL, *Memcached::ALL, *Mongo::ALL, *MySQL::ALL, Programs, Signals, Sockets, *Curl::ALL, *CallsInC::ALL
        ].freeze
        UNGUARDED = :paceline_shadow_unguarded
        private_constant :ALL, :UNGUARDED

        # Before Kernel#require: what has just been loaded may need a guard. For classes that are defined in C; for all others see `watch`.
        module Requiring
          def require(...)
            super.tap { |loaded| Guards.settle if loaded }
          end
        end

        class << self
          # The shadow of this process: a Copy.
          attr_reader :shadow

          def install(shadow)
            @shadow = shadow
            @waiting = ALL.dup
            @mutex = Thread::Mutex.new
            settle
            Kernel.prepend(Requiring)
            watch
          end

          # Puts the guards of what has been loaded meanwhile.
          def settle
            return if @waiting.empty? || @mutex.owned? # a guard's own `require`

            @mutex.synchronize do
              ready = @waiting.select(&:there?)
              @waiting -= ready
              ready.each(&:install)
            end
          end

          # However a file comes to be loaded, by `require_relative` and `load`, which can't be seen by their names, or by a loader of C code: what it defines
          # has its guard at the end of the definition, before the rest of the file is run.
          def watch
            @watching = TracePoint.new(:end) { |definition| settle unless definition.self.singleton_class? }
            @watching.enable
          end

          # Whether a constant is there without loading anything.
          def loaded?(name)
            name.split("::").inject(Object) do |within, part|
              return false if within.autoload?(part) || !within.const_defined?(part, false)

              within.const_get(part, false)
            end
            true
          end

          # Notes a write of the application.
          def note(kind, what)
            @shadow.note_write(kind: kind, what: what)
          end

          # In this thread, while the block runs, nothing is guarded that is not guarded already.
          def unguarded
            before = Thread.current.thread_variable_get(UNGUARDED)
            Thread.current.thread_variable_set(UNGUARDED, true)
            yield
          ensure
            Thread.current.thread_variable_set(UNGUARDED, before)
          end

          def off?
            Thread.current.thread_variable_get(UNGUARDED) ? true : false
          end
        end

        def initialize(shadow)
          @shadow = shadow
        end

        # Once, before the first request.
        def install
          Guards.install(@shadow)
          Guards.unguarded { outbound.install(@shadow) }
        end

        # The outbound calls' guard.
        def outbound
          Outbound
        end

        # Runs one request: the block. `command`: the driver's; `name`: tells the request from others, in all shadows.
        def around(command, name, &block)
          begin_request
          begin_outbound(command, name)
          SeededRandom.seed(command.fetch("seed"))
          HeldClock.hold(command.fetch("clock"))
          ActiveRecordConnections.around(&block)
        end

        # Runs one request of those that several threads have in hand: the block. The clock and random numbers are the process's own. Nothing is recorded.
        def around_one_of_several(name, &block)
          begin_request
          Outbound.replay(name)
          ActiveRecordConnections.around(&block)
        ensure
          CurrentRequest.finish
        end

        # What `around` has recorded of outbound calls; nil if it was to record none.
        def recording(command)
          Outbound.recordings if command["outbound"] == "record"
        end

        private

        def begin_request
          CurrentRequest.start
          Caches.settle
          Sessions.settle
        end

        # A request finds its own recordings by its name, whichever shadow has made them.
        def begin_outbound(command, name)
          Outbound.request = name
          Outbound.mode = command["outbound"] == "record" ? :record : :replay
        end
      end
    end
  end
end
