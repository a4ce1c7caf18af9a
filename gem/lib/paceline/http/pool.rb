# frozen_string_literal: true

# Connections that wait for their next request, of the whole process. One that its other end has closed is noticed before it is used.
# Connections that were made before a fork stay with the parent. It opens none, and no thread of its own looks at them.
module Paceline
  module HTTP
    class Pool
      # Connections that wait: to one destination, and to all of them.
      MOST_OF_ONE = 32
      MOST = 256
      # What a connection has waited longer than (s) is not used, unless its other end has said for how long it keeps it.
      LONGEST = 55
      private_constant :MOST_OF_ONE, :MOST, :LONGEST

      def initialize
        @mutex = Thread::Mutex.new
        @pid = Process.pid
        forget
      end

      # A connection that can be used, or nil. `repeatable`: the request may be sent again if the connection was closed in this very moment; if not,
      # only one that `keep_alive` trusts will do. `within`: one that has waited for at most so many seconds.
      def take(key, repeatable, within = nil, keep_alive = nil)
        spared = []
        while (wire = pop(key))
          if !good?(wire, within, keep_alive) then close(wire)
          elsif repeatable then return wire
          else spared.unshift(wire)
          end
        end
        taken = spared.reverse_each.find { |one| keep_alive&.trusts?(one.idle) }
      ensure
        put_back(spared, taken) unless spared.empty?
      end

      # Whether the next request may take a connection: it has not waited too long, and its other end has not closed it.
      def good?(wire, within = nil, keep_alive = nil)
        idle = wire.idle
        longest = wire.kept_for ? wire.kept_for - 1 : LONGEST
        longest = within if within && within < longest
        return false if idle >= longest

        closed = wire.stale?
        closed ? keep_alive&.found_closed(idle) : keep_alive&.found_open(idle)
        !closed
      end

      # This one is needed no longer.
      def give(wire)
        return wire.abandon if wire.foreign?
        return close(wire) unless wire.clean?

        leaving = locked do
          waiting = (@waiting[wire.key] ||= [])
          waiting.push(wire)
          @count += 1
          too_many(waiting)
        end
        leaving&.each { |one| close(one) }
      end

      # Closes all that wait.
      def close_all
        leaving = locked do
          @waiting.values.flatten.tap { forget }
        end
        leaving.each { |wire| close(wire) }
      end

      def size
        locked { @count }
      end

      private

      # Whoever is interrupted here leaves the count right.
      def locked
        Thread.handle_interrupt(UNINTERRUPTED) do
          @mutex.synchronize do
            own
            yield
          end
        end
      end

      # The one that was used last: so those that are not needed grow old.
      def pop(key)
        locked do
          waiting = @waiting[key] or return
          wire = waiting.pop
          @waiting.delete(key) if waiting.empty?
          @count -= 1
          wire
        end
      end

      # Those that were looked at, oldest first. If the only one was not taken it is closed: a device that serves one connection at a time would not
      # answer on another.
      def put_back(wires, taken)
        return close(wires[0]) if wires.size == 1 && taken.nil?

        wires.each { |wire| give(wire) unless wire.equal?(taken) }
      end

      def too_many(waiting)
        if waiting.size > MOST_OF_ONE
          @count -= 1
          # The oldest stays: it shows for how long the server keeps connections.
          [waiting.delete_at(waiting[0].idle < LONGEST ? 1 : 0)]
        elsif @count > MOST
          oldest = @waiting.values.flatten.sort_by(&:idle_since).first(MOST / 4)
          oldest.each { |wire| @waiting[wire.key].delete(wire) }
          @waiting.delete_if { |_, wires| wires.empty? }
          @count -= oldest.size
          oldest
        end
      end

      # After a fork: what the parent has is not ours to end.
      def own
        return if @pid == Process.pid

        @pid = Process.pid
        @waiting.each_value { |wires| wires.each(&:abandon) }
        forget
      end

      def forget
        @waiting = {}
        @count = 0
      end

      def close(wire)
        wire.close unless wire.closed?
      rescue SystemCallError, IOError, OpenSSL::SSL::SSLError
        nil
      end
    end
  end
end
