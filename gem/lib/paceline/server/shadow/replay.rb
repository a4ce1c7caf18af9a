# frozen_string_literal: true

# Answers one replayed request after another: with a clock and random numbers that the driver sets, guarded, and measured. It never retries.
require_relative "answer"
require_relative "cost"
require_relative "delivery"
require_relative "place"
require_relative "profile"
require_relative "quiet"
require_relative "replay_env"

module Paceline
  module Server
    module Shadow
      class Replay
        # Characters of an exception's message.
        MAX_MESSAGE = 500
        # Where Rails leaves what an action raised.
        RAISED = "action_dispatch.exception"
        # Microseconds.
        SHORT = 20_000
        private_constant :MAX_MESSAGE, :RAISED, :SHORT

        # `shadow`: a Copy; `guards`: its Guards.
        def initialize(shadow, guards)
          require "stringio"
          require_relative "evidence"
          @shadow = shadow
          @guards = guards
          @place = Place.new(shadow.root)
          @rack3 = defined?(::Rack) && ::Rack.respond_to?(:release) && ::Rack.release.to_i >= 3
          @env = ReplayEnv.new(rack3: @rack3)
          @seen = {}
        end

        # Whether there has been a request.
        def begun?
          !@seen.empty?
        end

        # `command`: the driver's. Returns what it is answered.
        def call(command)
          name = JSON.generate(command.fetch("request"))
          begin_replay(name)
          Quiet.empty_logs
          env, answer, cost, evidence = take(command, name)
          # Since the last replay another process has run, and the processor's caches are its own. A short request would seem longer by what it
          # takes to fill them, which a worker under load does not pay each time.
          env, answer, cost, evidence = again(command, name) if command["warm"] && cost.wall < SHORT
          result(command, env, answer, cost).merge("evidence" => evidence&.to_h)
        end

        private

        # For what counts calls within a replay it is another one.
        def again(command, name)
          @shadow.replay_begins(name, false)
          take(command, name)
        end

        def take(command, name)
          env = answer = cost = evidence = nil
          @asked = nil
          Profile.end_signals unless command["profile"]
          @profile = command["profile"] ? Profile.new(@shadow.root, @shadow.app) : nil
          @guards.around(command, name) do
            # Not before: it may be seen from here on that time and random numbers are held.
            env = @env.build(command["request"], clock: command["clock"], seed: command["seed"], stranger: command["stranger"])
            answer = Answer.new(delivery(command["deliver"]), rack3: @rack3)
            evidence = Evidence.new(root: @shadow.root, app: @shadow.app) if command["observe"]
            cost = Cost.of { looked_at(evidence, command["stranger"], env) { answer.take(@shadow.app, env) } }
            answer.conclude
          end
          [env, answer, cost, evidence]
        end

        # An evidence, what is asked of the visitor, or a profile: each is for a replay of its own.
        def looked_at(evidence, stranger, env, &block)
          return evidence.around(env, &block) if evidence
          return @profile.around(&block) if @profile

          stranger ? watched(env, &block) : yield
        end

        # What the application asks of a visitor who is made up.
        def watched(env)
          visitor = Evidence::Visitor.new(@shadow.root)
          visitor.start(env)
          yield
        ensure
          visitor&.stop(env)
          @asked = visitor&.to_a
        end

        # All requests come once before the first of them comes again: then the shadow is warm.
        def begin_replay(name)
          first = !@seen.key?(name)
          @seen[name] = true
          @shadow.replay_begins(name, first)
          return if first || @settled

          @settled = true
          GC.start
        end

        def delivery(name)
          return Delivery::Gathered.new unless name == "pieces"

          @socket ||= Guards.unguarded { Delivery.open_sockets(1) }.first
          Delivery::Pieces.new(@socket)
        end

        def result(command, env, answer, cost)
          body = answer.body
          told = { "id" => command["id"], "status" => answer.status, "headers" => answer.headers, "body" => [body].pack("m0"), "body_bytes" => body.bytesize,
                   "wall_us" => cost.wall, "cpu_us" => cost.cpu, "gc_us" => cost.gc, "allocated" => cost.allocated, "pieces" => answer.pieces,
                   "write" => @shadow.notes.to_h, "error" => error(answer, env), "asked" => @asked,
                   "programs" => @shadow.notes.programs, "profile" => @profile&.to_h }
          recording = @guards.recording(command)
          recording ? told.merge("recording" => recording) : told
        end

        def error(answer, env)
          raised = answer.error || (env[RAISED] if answer.status >= 500)
          return unless raised.is_a?(Exception)

          { "class" => raised.class.name.to_s, "message" => message(raised), "at" => @place.of(raised.backtrace_locations || raised.backtrace) }
        end

        def message(error)
          error.message.to_s.dup.force_encoding(Encoding::UTF_8).scrub("?")[0, MAX_MESSAGE]
        rescue StandardError
          "(its message raised)"
        end
      end
    end
  end
end
