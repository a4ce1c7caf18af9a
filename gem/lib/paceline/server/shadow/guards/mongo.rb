# frozen_string_literal: true

require_relative "library"

# MongoDB by the gem mongo, and what uses it (Mongoid): commands that only read are sent. Any other is noted as a write, and refused.
module Paceline
  module Server
    module Shadow
      class Guards
        module Mongo
          # In lower case; last those of connections and of transactions, which hold only reads.
          READING = %w[
            aggregate collstats count dbstats distinct explain find getmore killcursors listcollections listdatabases listindexes
            authenticate buildinfo connectionstatus endsessions getnonce hello ismaster ping saslcontinue saslstart serverstatus
            aborttransaction committransaction
          ].freeze
          # Steps of an aggregation that write.
          WRITING_STEPS = %w[$out $merge].freeze

          # Before the connections of the driver: all commands of an application go through it.
          module OfConnection
            def dispatch(messages, *)
              messages.each { |message| Mongo.check(message.payload) } unless Guards.off?
              super
            end
          end

          # Before the driver's sockets.
          module OfSocket
            def connect!(*)
              Guards.unguarded { super }
            end
          end

          # Before its sockets of a path, which it connects at once.
          module OfUnixSocket
            def initialize(*)
              Guards.unguarded { super }
            end
          end

          ALL = [
            *%w[Mongo::Server::ConnectionBase Mongo::Server::Connection].map { |name| Library.new(name, OfConnection, method: :dispatch) },
            *%w[Mongo::Socket::TCP Mongo::Socket::SSL].map { |name| Library.new(name, OfSocket, method: :connect!) },
            Library.new("Mongo::Socket::Unix", OfUnixSocket, method: :initialize)
          ].freeze

          class << self
            # `payload`: what the driver tells those who watch its commands.
            def check(payload)
              name = payload["command_name"].to_s
              return if reads?(name, payload["command"])

              Guards.note("store", "the MongoDB command #{name}")
              raise ::Mongo::Error, "a shadow of paceline doctor does not write"
            end

            def reads?(name, command)
              return false unless READING.include?(name.downcase)

              steps = (name == "aggregate" && command && command["pipeline"]) || []
              steps.none? { |step| step.keys.any? { |key| WRITING_STEPS.include?(key.to_s) } }
            end
          end
        end
      end
    end
  end
end
