# frozen_string_literal: true

# What belongs to one replayed request, as guards keep it: found by the threads that answer the request and by those that it starts, which are in the
# same ThreadGroup. A shadow that answers one request at a time has one of these for all threads. It never looks at what is kept in it.
module Paceline
  module Server
    module Shadow
      class CurrentRequest
        # What it tried to write first: WriteNotes.
        attr_accessor :note

        # Programs that it has started, with the line of the application: WriteNotes.
        attr_accessor :programs

        # Sessions that it has changed: Guards::Sessions.
        attr_accessor :sessions

        # Open ones, each on a connection: Guards::ActiveRecordConnections. Nil: none is to be opened.
        attr_accessor :transactions

        # Its outbound calls: Outbound::Calls.
        attr_accessor :calls

        # The counters of a cache store, which count for this request alone.
        def counters(store)
          @counters ||= {}.compare_by_identity
          @counters[store] ||= {}
        end

        # A thread that answers requests beside other threads, with all that its requests start.
        class Group < ThreadGroup
          # Nil: there is no request in hand.
          attr_accessor :request
        end
        private_constant :Group

        @common = new
        @groups = []

        class << self
          # The request of this thread.
          def get
            group = Thread.current.group
            (group.request if group.is_a?(Group)) || @common
          end

          # A request begins.
          def start
            group = Thread.current.group
            group.is_a?(Group) ? group.request = new : @common = new
          end

          # The request of this thread has ended.
          def finish
            group = Thread.current.group
            group.request = nil if group.is_a?(Group)
          end

          # From now on the requests of this thread are its own.
          def claim
            group = Group.new
            @groups += [group]
            group.add(Thread.current)
          end

          # Those that this thread may act for: its own; for a thread that belongs to none of several requests, each of them.
          def concerned
            group = Thread.current.group
            return [group.request] if group.is_a?(Group) && group.request

            all = @groups.filter_map(&:request)
            all.empty? ? [@common] : all
          end
        end
      end
    end
  end
end
