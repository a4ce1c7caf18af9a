# frozen_string_literal: true

# The shadow's side of the stand-in: starts it, gives it recordings, and says which of them answers the next request of a connection, and when. The
# stand-in is a Ruby of its own (stand_in_process.rb): it has none of the application's code, handlers and descriptors, and ends with the shadow.
require "rbconfig"
require_relative "stand_in_frames"

module Paceline
  module Server
    module Shadow
      module Outbound
        class StandIn
          include StandInFrames

          PROGRAM = File.expand_path("stand_in_process.rb", __dir__)
          REPORTED = %w[connections handshakes answers answers_at_once].freeze
          # What Ruby has for random numbers follows from a known seed here.
          RANDOM = "/dev/urandom"
          private_constant :PROGRAM, :REPORTED, :RANDOM

          # Where it listens, on 127.0.0.1.
          attr_reader :port, :pid

          def initialize
            listener = ::TCPServer.new("127.0.0.1", 0)
            @port = listener.addr[1]
            @control, theirs = ::UNIXSocket.pair
            @mutex = Thread::Mutex.new
            @known = {}
            @owner = Process.pid
            @pid = Process.spawn(
              { "RUBYOPT" => nil, "RUBYLIB" => nil }, RbConfig.ruby, "--disable=gems,rubyopt", PROGRAM, Process.pid.to_s,
              in: theirs, out: File::NULL, err: [ENV.fetch("PACELINE_SHADOW_LOG", File::NULL), "a"], 3 => listener, chdir: "/", close_others: true
            )
            @control.write(@secret = File.binread(RANDOM, SECRET_SIZE))
          ensure
            listener&.close
            theirs&.close
          end

          # Says on a new socket to the stand-in which connection it is.
          def introduce(socket, connection)
            origin = connection.origin
            kind = (origin.tls? ? TLS : 0) | (origin.tunnel? ? TUNNEL : 0)
            socket.write([@secret, connection.id, kind, origin.host.bytesize].pack(INTRODUCTION) << origin.host.b)
          end

          # The next request of this connection (its id) is answered at this moment (monotonic microseconds) with so much (microseconds) between the
          # first byte and the last.
          def answer(connection, recording, moment, rest_us)
            talk do
              unless @known[recording.number]
                @known[recording.number] = true
                put(RECORDING, recording.closes ? 1 : 0, recording.number, 0, recording.first, recording.bytes)
              end
              put(ANSWER, connection, recording.number, moment, rest_us)
            end
          end

          # The certificate, DER, of its authority.
          def authority
            @authority ||= ask(AUTHORITY).freeze
          end

          # What it has seen: {"connections" => 15, "handshakes" => 15, "answers" => 15, "answers_at_once" => 1}, the last one being how many were
          # waited for at the same time.
          def report
            REPORTED.zip(ask(REPORT).unpack(COUNTS)).to_h
          end

          # Ends it.
          def close
            @control.close
            Process.wait(@pid) if @owner == Process.pid
          rescue Errno::ECHILD
            nil
          end

          private

          def ask(kind)
            talk do
              put(kind)
              size = read(4).unpack1(REPLY)
              read(size)
            end
          end

          # A child of the shadow would mix its words with the shadow's.
          def talk(&block)
            raise Refused, "only the shadow itself makes outbound calls" unless @owner == Process.pid

            @mutex.synchronize(&block)
          end

          def put(kind, id = 0, number = 0, moment = 0, rest = 0, bytes = "")
            @control.write([kind, id, number, moment, rest, bytes.bytesize].pack(FRAME), bytes)
          end

          def read(size)
            bytes = @control.read(size)
            raise EOFError, "the stand-in for outbound calls has ended" unless bytes&.bytesize == size

            bytes
          end
        end
      end
    end
  end
end
