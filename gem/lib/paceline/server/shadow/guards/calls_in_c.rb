# frozen_string_literal: true

require_relative "library"

# Calls by libraries in C, whose sockets Ruby does not see: gRPC, and Kafka by the gem rdkafka (Karafka, WaterDrop). None is made: what it does can't be told,
# and it can't be recorded. Calls by libcurl are in curl.rb.
module Paceline
  module Server
    module Shadow
      class Guards
        module CallsInC
          # Before GRPC::Core::Channel: all calls of all stubs begin there.
          module OfChannel
            def create_call(parent, mask, method, *)
              Sockets.refuse("the call #{method} by gRPC") unless Guards.off?
              super
            end
          end

          # Before Rdkafka::Producer.
          module OfProducer
            def produce(topic:, **)
              Sockets.refuse("a message for the topic #{topic} of Kafka") unless Guards.off?
              super
            end
          end

          ALL = [
            Library.new("GRPC::Core::Channel", OfChannel, method: :create_call), Library.new("Rdkafka::Producer", OfProducer, method: :produce)
          ].freeze
        end
      end
    end
  end
end
