# frozen_string_literal: true

# Tells the front of writes, on a Unix socket of its own: INTENT with the statements, answered by the front once it serves no
# page any more that they touch; then DONE. A process that dies in between leaves an INTENT open, which the front sees by the
# end of the connection. Without a front nobody keeps pages, so a socket that fails is no failure of the application's.
#
# A frame: u32 length, u8 type, payload of fields. INTENT: id, then entries of a record. DONE: id, `commit` or `unknown`.
# RELEASE: the load of the code, and `missed` after a failure to connect. READING: id. SCHEMA: that id, then a schema.
# DATABASE: a path. ACK: what INTENT, RELEASE and READING began with.
require "socket"
require_relative "../uninterrupted"

module Paceline
  module AutoCache
    class Journal
      INTENT = 0x61
      DONE = 0x62
      READING = 0x63
      SCHEMA = 0x64
      RELEASE = 0x65
      DATABASE = 0x66
      ACK = 0x71

      # Seconds that a commit waits for the front at most. A front that does not answer in that time has seen the connection
      # close, and then serves nothing that this process could have changed.
      PATIENCE = 1.0
      # For so long (s) the answer is looked for without giving away Ruby's lock. The thread holds a lock of the database: one that
      # waits for that within a driver's C code would keep Ruby's lock until its time-out.
      SPIN = 0.05
      READ = 4096
      # Bytes of an INTENT. One with more says that anything is written.
      MAX_INTENT = 4 << 20
      # Keys of one INTENT; the front takes 4,096 entries. One with more says that all of them are written.
      MAX_KEYS = 1000
      # No server listens there (any more).
      NOBODY = [Errno::ENOENT, Errno::ECONNREFUSED, Errno::ENOTSOCK].freeze
      private_constant :SPIN, :READ, :MAX_INTENT, :MAX_KEYS, :NOBODY

      # A path, or a block that finds it: nil, or several, of which the first counts that a server listens at.
      def initialize(path = nil, &find)
        @find = find || -> { path }
        @lock = Mutex.new
        @number = 0
        @received = String.new(encoding: ::Encoding::BINARY)
      end

      # Connects. The application goes on without a front.
      def open
        @lock.synchronize { connected }
      end

      # This process is connected.
      def open?
        !@socket.nil? && @pid == Process.pid
      end

      # Tells the schema that the block reads. The front believes it only if no change of it was announced since it was asked here.
      def schema
        id = next_id
        ask(READING, id, Encoding.append(+"", id))
        return unless open? && (wire = yield)

        @lock.synchronize { send_frame(SCHEMA, Encoding.append(+"", id) << wire) }
      end

      # The file of a SQLite database, to which others may write.
      def database(path)
        @lock.synchronize { send_frame(DATABASE, Encoding.append(+"", path)) }
      end

      # Says which load of the code this process serves with, or "" if it serves nothing. The front shows pages only while all its
      # processes have joined, and all that serve have the same load. True: it has joined.
      def join(release)
        @lock.synchronize do
          @release = [release, Process.pid]
          if !open?
            connected
          elsif @told != @release
            tell_release
          end
          open?
        rescue SystemCallError, IOError
          close
          false
        end
      end

      # Joins once more if there is no connection, or if the front has closed it. True: it has just joined.
      def rejoin
        return false unless joins?

        @lock.synchronize do
          close if open? && over?
          return false if open?

          connected
          open?
        end
      end

      # This process is to be joined.
      def joins?
        @release&.last == Process.pid
      end

      # Returns what `done` wants to know.
      def intend(entries)
        id = next_id
        payload = entries.each_with_object(Encoding.append(+"", id)) { |entry, out| append(out, *entry) }
        payload = append(Encoding.append(+"", id), Statements.anything(entries), [], nil) if payload.bytesize > MAX_INTENT
        ask(INTENT, id, payload)
      end

      # Announces writes to keys of Rails.cache. Returns what `done` wants to know.
      def intend_keys(keys)
        id = next_id
        keys = [ALL] if keys.size > MAX_KEYS
        ask(INTENT, id, keys.each_with_object(Encoding.append(+"", id)) { |key, out| Encoding.append(out, "K", "", key) })
      end

      def done(id, how)
        @lock.synchronize { send_frame(DONE, Encoding.append(+"", id, how)) }
      end

      def close
        if open?
          @closed = now
          shut
        end
        @socket&.close
        @socket = @told = nil
        @received = String.new(encoding: ::Encoding::BINARY)
      end

      private

      # The front has closed the connection.
      def over?
        @socket.recv_nonblock(1, Socket::MSG_PEEK, exception: false).to_s.empty?
      rescue SystemCallError, IOError
        true
      end

      # A child of fork may have a copy: the front sees the end all the same.
      def shut
        @socket.shutdown
      rescue SystemCallError
        nil # the front has closed it
      end

      def next_id
        "#{Process.pid}-#{@lock.synchronize { @number += 1 }}"
      end

      def append(out, sql, values, generated)
        Encoding.append(out, "S", "", sql, values.size, *values.map { |value| Encoding.value(value) })
        Encoding.append(out, "G", "", generated[0], Encoding.value(generated[1])) if generated
        out
      end

      # Sends it and waits for the answer. Returns the id.
      def ask(type, id, payload)
        @lock.synchronize do
          answered = false
          begin
            # The front may have closed a connection that nothing was sent on since.
            Array.new(2).any? { send_frame(type, payload) } ? await(id) : outlast
            answered = true
          ensure
            # Half of the answer may lie there.
            close unless answered
          end
        end
        id
      end

      def send_frame(type, payload)
        connected or return false
        # What another thread raises here (Timeout) never comes after half a frame.
        Thread.handle_interrupt(UNINTERRUPTED) { write([payload.bytesize, type].pack("NC") << payload.b) }
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
        @socket = Array(@find.call).lazy.filter_map { |path| reach(path) }.first or return
        tell_release
        @socket
      rescue SystemCallError, IOError
        close
        nil
      end

      # However long the path is, its socket's address is short.
      def reach(path)
        Dir.open(File.dirname(path)) { |folder| UNIXSocket.new("/proc/self/fd/#{folder.fileno}/#{File.basename(path)}") }
      rescue *NOBODY
        nil
      rescue SystemCallError => e
        @missed = true
        unless @warned
          @warned = true
          warn "paceline: auto_cache: #{path} can't be opened (#{e.message}): the server does not learn what this process writes. " \
               "While that is a worker no page is shown; otherwise old pages may be. Run it as the server's user, and raise its limit of open files if that is used up"
        end
        nil
      end

      # A child of a worker serves nothing.
      def tell_release
        release, pid = @release
        return unless pid == Process.pid

        payload = Encoding.append(+"", release, *(@missed ? ["missed"] : [])).b
        Thread.handle_interrupt(UNINTERRUPTED) { write([payload.bytesize, RELEASE].pack("NC") << payload) }
        await(release)
        return unless @socket

        @told = @release
        @missed = false
      end

      def await(id)
        began = now
        until acknowledged?(id)
          case (bytes = @socket.read_nonblock(READ, exception: false))
          when nil then return close
          when :wait_readable
            waited = now - began
            return close if waited > PATIENCE

            @socket.wait_readable(PATIENCE - waited) if waited > SPIN
          else @received << bytes
          end
        end
      rescue SystemCallError, IOError
        close
      end

      # There was a connection, and another can't be opened: after the time that an answer may take, the front has seen that.
      def outlast
        left = @missed && @closed ? @closed + PATIENCE - now : 0
        sleep(left) if left.positive?
      end

      # Takes whole frames until it is the one with this id.
      def acknowledged?(id)
        while @received.bytesize >= 5
          length, type = @received.unpack("NC")
          return false if @received.bytesize < 5 + length

          payload = @received.byteslice(5, length)
          @received = @received.byteslice(5 + length, @received.bytesize)
          return true if type == ACK && payload == "#{id}\0"
        end
        false
      end

      # All of it, or IOError: a front that does not read holds up no commit. What the socket takes at once is written without giving
      # away Ruby's lock, as in `await`.
      def write(bytes)
        ends = nil
        loop do
          written = @socket.write_nonblock(bytes, exception: false)
          written = 0 if written == :wait_writable
          return if written == bytes.bytesize

          bytes = bytes.byteslice(written, bytes.bytesize)
          ends ||= now + PATIENCE
          left = ends - now
          raise IOError, "the front does not read" unless left.positive? && @socket.wait_writable(left)
        end
      end

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
