# frozen_string_literal: true

# Tells the front of writes, on a Unix socket of its own: INTENT with the statements, answered by the front once it serves no
# page any more that they touch; then DONE. A process that dies in between leaves an INTENT open, which the front sees by the
# end of the connection. Without a front nobody keeps pages, so a socket that fails is no failure of the application's.
#
# A frame: u32 length, u8 type, payload of fields. INTENT: id, then entries of a record. DONE: id, `commit` or `unknown`.
# KEYS: keys of Rails.cache that were written. SCHEMA: a schema. ACK: id.
require "socket"
require_relative "../uninterrupted"

module Paceline
  module AutoCache
    class Journal
      INTENT = 0x61
      DONE = 0x62
      KEYS = 0x63
      SCHEMA = 0x64
      ACK = 0x71

      # Seconds that a commit waits for the front at most. A front that does not answer in that time has seen the connection
      # close, and then serves nothing that this process could have changed.
      PATIENCE = 1.0

      def initialize(path)
        @path = path
        @lock = Mutex.new
        @number = 0
      end

      # Connects. The application goes on without a front.
      def open
        @lock.synchronize { connected }
      end

      # This process is connected.
      def open?
        !@socket.nil? && @pid == Process.pid
      end

      def schema(wire)
        @lock.synchronize { send_frame(SCHEMA, wire) }
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
          answered = false
          begin
            send_frame(INTENT, payload) && await(id)
            answered = true
          ensure
            # Half of the answer may lie there.
            close unless answered
          end
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
        # What another thread raises here (Timeout) never comes after half a frame.
        Thread.handle_interrupt(UNINTERRUPTED) { socket.write([payload.bytesize, type].pack("NC") << payload.b) }
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
        # However long the path is, its socket's address is short.
        @socket = Dir.open(File.dirname(@path)) { |folder| UNIXSocket.new("/proc/self/fd/#{folder.fileno}/#{File.basename(@path)}") }
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
