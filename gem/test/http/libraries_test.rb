# frozen_string_literal: true

require_relative "support/case"
require "open-uri"

# What sits on Net::HTTP, unchanged: the same answers, on one connection.
class OutboundLibrariesTest < OutboundTest
  def self.there?(library)
    require library
    true
  rescue LoadError
    false
  end

  LIBRARIES = {
    "open-uri" => [true, ->(url, ca) { URI.parse(url).open(ssl_ca_cert: ca, "Accept" => "text/plain", &:read) }],
    "rest-client" => [there?("rest-client"), ->(url, ca) { RestClient::Request.execute(method: :get, url: url, ssl_ca_file: ca).body }],
    "httparty" => [there?("httparty"), ->(url, ca) { HTTParty.get(url, ssl_ca_file: ca).body }],
    "net-http-persistent" => [there?("net/http/persistent"), lambda { |url, ca|
      http = Net::HTTP::Persistent.new(name: "test")
      http.ca_file = ca
      http.request(URI(url)).body.tap { http.shutdown }
    }],
    "aws-sdk-core" => [there?("aws-sdk-core"), lambda { |url, ca|
      handler = Seahorse::Client::NetHttp::ConnectionPool.for(ssl_ca_bundle: ca, ssl_verify_peer: true)
      body = +""
      handler.session_for(URI(url)) { |http| http.request(Net::HTTP::Get.new("/utf8")) { |response| response.read_body { |piece| body << piece } } }
      handler.empty!
      body
    }]
  }.freeze

  LIBRARIES.each do |name, (there, get)|
    [false, true].each do |by_front|
      define_method("test_#{name}#{"_through_the_front" if by_front}") do
        skip "#{name} is not installed" unless there
        server = server(tls: :yes)
        egress = (front if by_front)
        by_itself = get.call(server.url("/utf8"), Certificates.ca_file)
        before = server.connections
        Paceline::HTTP.install!
        3.times do
          body = get.call(server.url("/utf8"), Certificates.ca_file)
          assert_equal [by_itself, by_itself.encoding], [body, body.encoding]
        end
        # Some put the system's certificates and the file into one store, which is not for the front.
        made_here = egress.nil? || egress.calls.empty?
        assert_equal made_here ? 1 : 3, server.connections - before
      end
    end
  end
end
