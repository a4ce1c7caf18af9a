# frozen_string_literal: true

# Tells the front of writes, on a Unix socket of its own: INTENT with the statements, answered by the front once it serves no
# page any more that they touch; then DONE. A process that dies in between leaves an INTENT open, which the front sees by the
# end of the connection. Without a front nobody keeps pages, so a socket that fails is no failure of the application's.
#
# A frame: u32 length, u8 type, payload of fields. INTENT: id, then entries of a record. DONE: id, `commit` or `unknown`.
# KEYS: keys of Rails.cache that were written. ACK: id.
require "socket"

module Paceline
  module AutoCache
    class Journal
      INTENT = 0x61
      DONE = 0x62
      KEYS = 0x63
      ACK = 0x71

      # Seconds that a commit waits for the front at most. A front that does not answer in that time has seen the connection
      # close, and then serves nothing that this process could have changed.
      PATIENCE = 1.0

      def initialize(path)
        @path = path
        @lock = Mutex.new
        @number = 0
      end

      # Returns what `done` wants to know.
      def intend(entries)
        @lock.synchronize do
          id = "#{Process.pid}-#{@number += 1}"
          payload = Encoding.append(+"", id)
          entries.each do |sql, values, generated|
            Encoding.append(payload, "S", "", sql, values.size, *values.map { |value| Encoding.value(value) })
            Encoding.append(payload, "G", "", generated[0], Encoding.value(generated[1])) if generated
          end
          send_frame(INTENT, payload) && await(id)
          id
        end
      end

      def done(id, how)
        @lock.synchronize { send_frame(DONE, Encoding.append(+"", id, how)) }
      end

      def keys(*keys)
        @lock.synchronize { send_frame(KEYS, Encoding.append(+"", *keys)) }
      end

      def close
        @socket&.close
        @socket = nil
      end

      private

      def send_frame(type, payload)
        socket = connected or return false
        socket.write([payload.bytesize, type].pack("NC") << payload.b)
        true
      rescue SystemCallError, IOError
        close
        false
      end

      def connected
        return @socket if @socket && @pid == Process.pid

        # A child of fork has its parent's: closing the copy says nothing to the front.
        close
        @pid = Process.pid
        @socket = UNIXSocket.new(@path)
      rescue SystemCallError
        nil
      end

      def await(id)
        limit = Process.clock_gettime(Process::CLOCK_MONOTONIC) + PATIENCE
        loop do
          left = limit - Process.clock_gettime(Process::CLOCK_MONOTONIC)
          return close unless left.positive? && @socket.wait_readable(left)

          head = @socket.read(5) or return close
          length, type = head.unpack("NC")
          payload = @socket.read(length)
          return if type == ACK && payload == "#{id}\0"
        end
      rescue SystemCallError, IOError
        close
      end
    end
  end
end
