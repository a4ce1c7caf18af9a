# frozen_string_literal: true

# Requests of many visitors at once: on several channels, each answered by a thread of its own, as a worker does. They are guarded like single replays; the
# time of day is the real one, and random numbers are nobody's choice, since no bytes are compared. It measures nothing: the driver does, with all waits.
require "socket.so"
require_relative "answer"
require_relative "conversation"
require_relative "current_request"
require_relative "delivery"
require_relative "quiet"
require_relative "replay_env"

module Paceline
  module Server
    module Shadow
      class Load
        # The logs are emptied after so many requests.
        LOGGED = 64
        # Bits of the number that a request id is made from.
        SEED = 64
        # Where Rails leaves what an action raised.
        RAISED = "action_dispatch.exception"
        private_constant :LOGGED, :SEED, :RAISED

        # `shadow`: a Copy; `guards`: its Guards; `command`: the driver's.
        def initialize(shadow, guards, command)
          require "stringio"
          @shadow = shadow
          @guards = guards
          # With their names, which tell them from others in all shadows.
          @requests = command.fetch("requests").map { |request| [request, JSON.generate(request)] }
          @rack3 = defined?(::Rack) && ::Rack.respond_to?(:release) && ::Rack.release.to_i >= 3
          @env = ReplayEnv.new(rack3: @rack3)
          @answered = 0
          start(command.fetch("socket"), command.fetch("threads"), command["deliver"])
        end

        private

        # Connects to the Unix socket at `path`, once for each thread.
        def start(path, threads, deliver)
          Kernel.srand # not what the other copies draw
          @guards.outbound.mode = :replay
          sockets = deliver == "pieces" ? Guards.unguarded { Delivery.open_sockets(threads) } : []
          channels = Guards.unguarded { Array.new(threads) { UNIXSocket.new(path) } }
          @threads = channels.each_with_index.map do |channel, index|
            channel.close_on_exec = true
            Thread.new { serve(channel, sockets[index]) }.tap { |thread| thread.name = "paceline #{index + 1}" }
          end
        end

        # Until the driver closes the channel.
        def serve(channel, socket)
          CurrentRequest.claim
          while (line = channel.gets)
            command = JSON.parse(line)
            channel.write(Conversation.encode(answer(command, socket)) << "\n")
          end
        rescue SystemCallError, IOError
          nil # the driver is gone
        ensure
          channel.close
        end

        def answer(command, socket)
          request, name = @requests.fetch(command.fetch("request"))
          answer = env = note = nil
          @guards.around_one_of_several(name) do
            env = @env.build(request, clock: ::Process.clock_gettime(::Process::CLOCK_REALTIME), seed: Random.rand(1 << SEED))
            answer = Answer.new(socket ? Delivery::Pieces.new(socket) : Delivery::Gathered.new, rack3: @rack3)
            answer.take(@shadow.app, env)
            answer.conclude
            note = @shadow.notes.to_h
          end
          empty_logs
          { "id" => command["id"], "status" => answer.status, "write" => note, "error" => error(answer, env) }
        end

        # Only the class: what it says may be a visitor's.
        def error(answer, env)
          raised = answer.error || (env[RAISED] if answer.status >= 500)
          raised.class.name.to_s if raised.is_a?(Exception)
        end

        def empty_logs
          Quiet.empty_logs if ((@answered += 1) % LOGGED).zero?
        end
      end
    end
  end
end
