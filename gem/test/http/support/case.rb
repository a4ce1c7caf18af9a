# frozen_string_literal: true

require "helper"
require "paceline/http"
require_relative "hostile_server"
require_relative "fake_egress"

# What the tests of outbound calls share: a server, a fake front, and a process as it was found.
class OutboundTest < Paceline::Test
  def setup
    @before = ENV.to_h.slice("PACELINE_EGRESS", "http_proxy", "HTTP_PROXY", "no_proxy", "REQUEST_METHOD", "SSL_CERT_FILE", "SSL_CERT_DIR")
    %w[http_proxy HTTP_PROXY no_proxy REQUEST_METHOD SSL_CERT_FILE SSL_CERT_DIR].each { |name| ENV.delete(name) }
    ENV["PACELINE_EGRESS"] = "off"
    @started = []
  end

  def teardown
    Paceline::HTTP.uninstall!
    Paceline::HTTP.close
    @started.each { |one| one.respond_to?(:remove) ? one.remove : one.stop }
    %w[PACELINE_EGRESS http_proxy HTTP_PROXY no_proxy REQUEST_METHOD SSL_CERT_FILE SSL_CERT_DIR].each { |name| ENV[name] = @before[name] }
  end

  def server(**settings)
    HostileServer.new(**settings).tap { |one| @started << one }
  end

  # A running front's own socket: `EGRESS_SOCKET=/srv/app/tmp/paceline-egress.sock ruby ... differential_test.rb` looks at the real one.
  Real = Struct.new(:path) do
    def calls = [:unknown]
    def stop = nil
  end

  # A fake front that is in use from here on.
  def front
    if (path = ENV["EGRESS_SOCKET"])
      ENV["PACELINE_EGRESS"] = path
      return Real.new(path)
    end
    FakeEgress.new.tap do |one|
      @started << one
      ENV["PACELINE_EGRESS"] = one.path
    end
  end

  # Whoever calls it goes on when so many have called it.
  def barrier(count)
    came, go = Queue.new, Queue.new
    lambda do
      came << 1
      count.times { go << 1 } if came.size == count
      go.pop
    end
  end
end
