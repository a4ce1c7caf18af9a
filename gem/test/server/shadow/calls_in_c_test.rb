# frozen_string_literal: true

require_relative "support/shadow_case"

# No call is made by libraries whose sockets Ruby does not see. They are stand-ins here.
class ShadowCallsInCTest < ShadowCase
  LIBRARIES = <<~RUBY
    module GRPC; module Core; class Channel
      def create_call(_parent, _mask, _method, _host, _deadline) = "called"
    end; end; end
    module Rdkafka; class Producer
      def produce(topic:, payload: nil) = "called \#{payload}"
    end; end
    module Curl
      Easy = Struct.new(:url) { def perform = "called" }
      class Multi
        attr_writer :idle
        def idle? = @idle
        def perform = "called"
      end
    end
    module Patron
      Request = Struct.new(:url)
      class Session
        def get(url) = handle_request(Request.new(url))
        private def handle_request(_request) = "called"
      end
    end
    def outcome
      yield
    rescue StandardError => e
      e.class.name
    end
  RUBY

  def test_none_is_made
    codes = { "/grpc" => "GRPC::Core::Channel.new.create_call(nil, nil, '/shop.Beers/List', 'a.test', nil)", "/kafka" => "Rdkafka::Producer.new.produce(topic: 'visits', payload: 'secret')",
              "/curb" => "Curl::Easy.new('http://user:secret@a.test/?secret').perform", "/curbs" => "Curl::Multi.new.perform", "/patron" => "Patron::Session.new.get('https://a.test:8443/secret')",
              "/idle" => "Curl::Multi.new.tap { |all| all.idle = true }.perform",
              # What the shadow itself does is let through.
              "/own" => "Paceline::Server::Shadow::Guards.unguarded { [GRPC::Core::Channel.new.create_call(nil, nil, 'a', 'b', nil), Rdkafka::Producer.new.produce(topic: 'a').strip, Curl::Easy.new('a').perform, Patron::Session.new.get('a')] }.uniq.join" }
    noted = { "/grpc" => "the call /shop.Beers/List by gRPC", "/kafka" => "a message for the topic visits of Kafka", "/curb" => "a call to a.test by libcurl",
              "/curbs" => "a call to another server by libcurl", "/patron" => "a call to a.test:8443 by libcurl" }
    with_shadow("#{LIBRARIES}#{routes(codes.transform_values { |code| "outcome { #{code} }" })}") do |shadow|
      noted.each do |path, what|
        result = shadow.get(path)
        assert_equal ["Paceline::Server::Shadow::Outbound::Refused", "outbound", what], [result["text"], *result["write"]&.values_at("kind", "what")], path
      end
      %w[/idle /own].each { |path| assert_equal ["called", nil], shadow.get(path).values_at("text", "write"), path }
    end
  end
end
