# frozen_string_literal: true

require_relative "support/shadow_case"

# No call is made by libraries whose sockets Ruby does not see. They are stand-ins here.
class ShadowCallsInCTest < ShadowCase
  LIBRARIES = <<~RUBY
    module GRPC; module Core; class Channel
      def create_call(_parent, _mask, _method, _host, _deadline) = "called"
    end; end; end
    module Rdkafka; class Producer
      def produce(topic:, payload: nil) = "produced \#{payload}"
    end; end
    def outcome
      yield
    rescue StandardError => e
      e.class.name
    end
  RUBY

  def test_none_is_made
    codes = { "/grpc" => "GRPC::Core::Channel.new.create_call(nil, nil, '/shop.Beers/List', 'a.test', nil)", "/kafka" => "Rdkafka::Producer.new.produce(topic: 'visits', payload: 'secret')" }
    noted = { "/grpc" => "the call /shop.Beers/List by gRPC", "/kafka" => "a message for the topic visits of Kafka" }
    with_shadow("#{LIBRARIES}#{routes(codes.transform_values { |code| "outcome { #{code} }" })}") do |shadow|
      noted.each do |path, what|
        result = shadow.get(path)
        assert_equal ["Paceline::Server::Shadow::Outbound::Refused", "outbound", what], [result["text"], *result["write"]&.values_at("kind", "what")], path
      end
    end
  end
end
