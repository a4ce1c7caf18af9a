# frozen_string_literal: true

require "helper"
require "open3"
require "rbconfig"

# With WebMock there are stubs, and no connections: in a process of its own each, since it puts another Net::HTTP in the place of the first.
class OutboundWebMockTest < Minitest::Test
  PREPARED = <<~RUBY
    require "socket"
    def check(what, expected, got) = expected == got || abort("\#{what}: \#{got.inspect} instead of \#{expected.inspect}")
    def raised
      yield
      nil
    rescue Exception => e
      e.class.name
    end
    FARADAY = begin
      require "paceline/http/faraday"
      true
    rescue LoadError
      false
    end
  RUBY
  CHECKED = <<~RUBY
    Paceline::HTTP.install! if ENV["INSTALL"]
    WebMock.enable!
    include WebMock::API
    stub_request(:get, "https://api.test/orders?a=1").to_return(status: 201, body: "stubbed", headers: { "X-One" => "1" })
    stub_request(:get, "https://api.test/slow").to_timeout
    response = Paceline::HTTP.get("https://api.test/orders", params: { a: 1 })
    check "get", [201, "stubbed", "1"], [response.status, response.body, response["x-one"]]
    check "all", %w[stubbed stubbed], Paceline::HTTP.all { |calls| 2.times { calls.get("https://api.test/orders?a=1") } }.map(&:body)
    check "time-out", "Net::OpenTimeout", raised { Paceline::HTTP.get("https://api.test/slow") }
    check "unknown", "WebMock::NetConnectNotAllowedError", raised { Paceline::HTTP.get("https://other.test/") }
    check "net/http", "stubbed", Net::HTTP.get(URI("https://api.test/orders?a=1"))
    if FARADAY
      faraday = Faraday.new("https://api.test") { |builder| builder.adapter :paceline }
      check "faraday", [201, "stubbed"], faraday.get("/orders?a=1").then { |answer| [answer.status, answer.body] }
      check "in parallel", 201, faraday.in_parallel { @in_parallel = faraday.get("/orders?a=1") }.then { @in_parallel.status }
    end
    server = TCPServer.new("127.0.0.1", 0)
    accepted = 0
    Thread.new do
      loop do
        socket = server.accept
        accepted += 1
        Thread.new { socket.write("HTTP/1.1 200 OK\\r\\nContent-Length: 4\\r\\n\\r\\nreal") while (line = socket.gets) && (line = socket.gets until line == "\\r\\n"; true) }
      end
    end
    url = "http://127.0.0.1:\#{server.addr[1]}/"
    check "a real one", "WebMock::NetConnectNotAllowedError", raised { Paceline::HTTP.get(url) }
    WebMock.allow_net_connect!
    check "allowed", %w[real real], Array.new(2) { Paceline::HTTP.get(url).body }
    check "connections", 1, accepted
    WebMock.disable!
    check "disabled", "real", Paceline::HTTP.get(url).body
    check "connections afterwards", 1, accepted
    puts "fine"
  RUBY

  { "before" => ["require 'webmock'", PREPARED], "after" => [PREPARED, "require 'webmock'"] }.each do |order, loaded|
    [nil, "1"].each do |install|
      define_method("test_loaded_#{order}#{"_installed" if install}") do
        skip "WebMock is not installed" unless system(RbConfig.ruby, "-e", "require 'webmock'", err: File::NULL, out: File::NULL)
        program = [*(order == "before" ? loaded : [PREPARED, "require 'paceline/http'", "require 'webmock'"]), "require 'paceline/http'", CHECKED].join("\n")
        output, status = Open3.capture2e({ "PACELINE_EGRESS" => "off", "INSTALL" => install, "RUBYOPT" => nil }, RbConfig.ruby, "-I#{File.expand_path("../../lib", __dir__)}", "-e", program)
        assert status.success?, output
        assert output.end_with?("fine\n"), output
      end
    end
  end
end
