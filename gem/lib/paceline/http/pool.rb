# frozen_string_literal: true

# Connections that wait for their next request, of the whole process. One that its other end has closed is noticed before it is used.
# Connections that were made before a fork stay with the parent. It opens none, and no thread of its own looks at them.
module Paceline
  module HTTP
    class Pool
      # Connections that wait: to one destination, and to all of them.
      MOST_OF_ONE = 32
      MOST = 256
      # What a connection has waited longer than (s) is not used, unless its other end has said for how long it keeps it. Some servers close after
      # 5 s, and who must not repeat a request does not come near that.
      LONGEST = 55
      LONGEST_UNLESS_REPEATABLE = 4
      private_constant :MOST_OF_ONE, :MOST, :LONGEST, :LONGEST_UNLESS_REPEATABLE

      def initialize
        @mutex = Thread::Mutex.new
        @pid = Process.pid
        forget
      end

      # A connection that can be used, or nil. `repeatable`: the request may be sent again if the connection was closed in this very moment.
      # `within`: one that has waited for at most so many seconds.
      def take(key, repeatable, within = nil)
        while (wire = pop(key))
          return wire if fit?(wire, repeatable, within) && !wire.stale?

          close(wire)
        end
      end

      # Whether a connection has not waited too long for this request.
      def fit?(wire, repeatable, within = nil)
        longest = wire.kept_for ? wire.kept_for - 1 : (repeatable ? LONGEST : LONGEST_UNLESS_REPEATABLE)
        longest = within if within && within < longest
        HTTP.now - wire.idle_since < longest
      end

      # This one is needed no longer.
      def give(wire)
        return wire.abandon if wire.foreign?
        return close(wire) unless wire.clean?

        leaving = @mutex.synchronize do
          own
          waiting = (@waiting[wire.key] ||= [])
          waiting.push(wire)
          @count += 1
          too_many(waiting)
        end
        leaving&.each { |one| close(one) }
      end

      # Closes all that wait.
      def close_all
        leaving = @mutex.synchronize do
          own
          @waiting.values.flatten.tap { forget }
        end
        leaving.each { |wire| close(wire) }
      end

      def size
        @mutex.synchronize { own; @count }
      end

      private

      # The one that was used last: so those that are not needed grow old.
      def pop(key)
        @mutex.synchronize do
          own
          waiting = @waiting[key] or return
          wire = waiting.pop
          @waiting.delete(key) if waiting.empty?
          @count -= 1
          wire
        end
      end

      def too_many(waiting)
        if waiting.size > MOST_OF_ONE
          @count -= 1
          [waiting.shift]
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
