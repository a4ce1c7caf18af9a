# frozen_string_literal: true

# Keeps the bytes of responses as they come from the socket, and when they came. It changes nothing of what Net::HTTP reads, and never keeps more
# than MAX bytes.
module Paceline
  module Server
    module Shadow
      module Outbound
        class Recorder
          # Bytes of all responses that this process records.
          MAX = 8 * 1024 * 1024
          private_constant :MAX

          # One request on one connection, until its response is complete.
          class Attempt
            # `first`: how many bytes came at once. Times in monotonic microseconds: of the request, of the first byte and of the last one.
            attr_reader :key, :bytes, :first, :began, :first_at, :last_at

            def initialize(key, recorder)
              @key = key
              @recorder = recorder
              @bytes = String.new(encoding: Encoding::BINARY)
              @state = :open
              @closed = @left = false
              @began = Outbound.now
            end

            # These have come; nil: the other end has closed the connection.
            def receive(bytes)
              return unless @state == :open

              @last_at = Outbound.now
              return @closed = true if bytes.nil?

              @first_at ||= @last_at
              @first ||= bytes.bytesize
              @recorder.room?(bytes.bytesize) ? @bytes << bytes : lose
            end

            # Whether the other end closed the connection.
            def closed?
              @closed
            end

            # The application wants no more of it: nothing more comes.
            def leave
              @left = true
              @recorder.keep(self, cut: true)
            end

            def left?
              @left
            end

            # Whether a part of a response has come, of which nobody has said what becomes of it.
            def begun?
              @state == :open && !@first_at.nil?
            end

            # Whether it can be replayed.
            def kept?
              @state == :kept
            end

            def keep
              @state = :kept
            end

            # This can't be replayed.
            def lose
              @state = :lost
              @bytes.clear
            end
          end

          # For a response: whether somebody has begun to read the body, and not gone on to its end.
          module Reading
            def read_body(...)
              @paceline_begun = true
              super
            end

            def paceline_left?
              @paceline_begun && !@read
            end
          end

          # For the socket that Net::HTTP reads from.
          module Tap
            attr_writer :paceline_attempt

            def read_nonblock(*, **)
              return if @paceline_attempt&.left?

              got = super
              @paceline_attempt&.receive(got) unless got.is_a?(Symbol)
              got
            end
          end
          private_constant :Tap

          # Why nothing more of this request is recorded; nil: there is room.
          attr_reader :full

          # The block is given the reason when there is no more room.
          def initialize(recordings, &on_full)
            @recordings = recordings
            @on_full = on_full
            @mutex = Thread::Mutex.new
            @total = 0
            self.begin(nil)
          end

          # A request begins.
          def begin(name)
            @recordings.forget(name)
            @name = name
            @full = nil
            @size = 0
            @calls = []
            @connections = []
          end

          # A call begins on this socket.
          def start(key, io)
            io.extend(Tap) unless io.is_a?(Tap)
            io.paceline_attempt = Attempt.new(key, self)
          end

          # Whether so many bytes more can be kept. If not, none of this request are.
          def room?(bytes)
            @mutex.synchronize do
              return false if @full

              @size += bytes
              @total += bytes
              return true if @total <= MAX

              @total -= @size
              @size = 0
              @full = "can't be recorded: the responses have more than #{MAX / 1024 / 1024} MB"
              @calls.clear
            end
            @recordings.forget(@name)
            @on_full.call("an outbound call #{@full}")
            false
          end

          # The response is complete. `cut`: it is not, and the application wants no more.
          def keep(attempt, cut: false)
            return if @full || !attempt.begun?

            attempt.keep
            closes = cut || attempt.closed?
            call = [attempt.key, attempt.bytes, attempt.first, attempt.first_at - attempt.began, attempt.last_at - attempt.first_at, closes]
            @mutex.synchronize { @calls << call }
            @recordings.add(@name, *call)
          end

          # A connection was opened.
          def connection(connection)
            one = [connection.origin.to_s, connection.connect_us, connection.tls_us]
            @mutex.synchronize { @connections << one }
            @recordings.add_connection(*one)
          end

          # What this request has recorded, for JSON. `calls`: [key, bytes in Base64, first, wait_us, rest_us, closes] of each.
          def dump
            @mutex.synchronize do
              { "request" => @name, "calls" => @calls.map { |key, bytes, *rest| [key, [bytes].pack("m0"), *rest] }, "connections" => @connections.dup }
            end
          end
        end
      end
    end
  end
end
