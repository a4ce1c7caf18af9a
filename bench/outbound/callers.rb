# frozen_string_literal: true

# Who makes the calls: in a process of its own (measured.rb) or in the application (bench/apps/outbound). Each is given URLs, and returns
# [status, body] of each. What is not Ruby's own is loaded only by who needs it.
require "net/http"
require "openssl"
require "socket"
require "uri"

module Bench
  module OutboundCallers
    CALLS = 15
    BYTES = 1024

    # One that returns [status, body] of each of its paths. BASE: "https://host:port"; CERTIFICATES: a file of those that are trusted, which
    # SSL_CERT_FILE names also.
    def self.make(name, base, certificates)
      case name
      when "raw" then Raw.new(base)
      when "net-http" then NetHttp.new(base)
      when "install" then install(base)
      when "get", "all" then own(name, base)
      else FaradayCaller.make(name, base, certificates)
      end
    end

    # Makes fifteen calls; what is wrong with the answers, nil if nothing.
    def self.batch(caller)
      answers = caller.call(Array.new(CALLS) { |number| "/orders/#{number}" })
      return "#{answers.size} answers instead of #{CALLS}" unless answers.size == CALLS

      answers.filter_map { |status, body| wrong(status, body.to_s.bytesize) }.tally.map { |what, times| "#{times} x #{what}" }.join("; ").then { |all| all unless all.empty? }
    end

    # What was wrong with the first of SOME with which something was.
    def self.wrongs(some, &of)
      some.filter_map(&(of || :wrong)).first
    end

    def self.wrong(status, bytes)
      return "status #{status}" unless status == 200

      "#{bytes} bytes instead of #{BYTES}" unless bytes == BYTES
    end

    def self.install(base)
      require "paceline/http"
      Paceline::HTTP.install!
      NetHttp.new(base)
    end

    def self.own(name, base)
      require "paceline/http"
      name == "get" ? Get.new(base) : All.new(base)
    end

    # One connection, and nothing that is not needed.
    class Raw
      def initialize(base)
        uri = URI(base)
        @host, @port = uri.host, uri.port
      end

      def call(paths) = paths.map { |path| get(path) }

      private

      def get(path)
        @socket ||= connect
        @socket.syswrite("GET #{path} HTTP/1.1\r\nHost: #{@host}:#{@port}\r\n\r\n")
        read = @socket.sysread(16_384)
        read << @socket.sysread(16_384) until (head = read.index("\r\n\r\n"))
        size = head + 4 + read[/^content-length: (\d+)/i, 1].to_i
        read << @socket.sysread(16_384) until read.bytesize >= size
        [read[9, 3].to_i, read.byteslice(head + 4..)]
      end

      def connect
        tcp = TCPSocket.new(@host, @port)
        tcp.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
        context = OpenSSL::SSL::SSLContext.new.tap(&:set_params)
        OpenSSL::SSL::SSLSocket.new(tcp, context).tap do |socket|
          socket.sync_close = true
          socket.connect
          socket.post_connection_check(@host)
        end
      end
    end

    # As most applications call that have no library for it.
    class NetHttp
      def initialize(base) = @base = base

      def call(paths)
        paths.map do |path|
          response = Net::HTTP.get_response(URI("#{@base}#{path}"))
          [response.code.to_i, response.body]
        end
      end
    end

    class Get
      def initialize(base) = @base = base

      def call(paths)
        paths.map do |path|
          response = Paceline::HTTP.get("#{@base}#{path}")
          [response.status, response.body]
        end
      end
    end

    class All
      def initialize(base) = @base = base

      def call(paths)
        Paceline::HTTP.all { |calls| paths.each { |path| calls.get("#{@base}#{path}") } }.map { |response| [response.status, response.body] }
      end
    end

    # Faraday with one adapter or another: one object for all pages, or a new one for each; one call after another, or together.
    class FaradayCaller
      ADAPTERS = { "faraday" => :net_http, "persistent" => :net_http_persistent, "excon" => :excon, "typhoeus" => :typhoeus, "paceline" => :paceline }.freeze
      PARALLEL = { "typhoeus-parallel" => "typhoeus", "parallel" => "paceline" }.freeze

      def self.make(name, base, certificates)
        require "faraday"
        parallel = PARALLEL.key?(name)
        kept = !name.end_with?("-new")
        kind = PARALLEL.fetch(name, name.delete_suffix("-new"))
        adapter = ADAPTERS.fetch(kind)
        load_adapter(adapter)
        # libcurl does not know SSL_CERT_FILE.
        ssl = adapter == :typhoeus ? { ca_file: certificates } : {}
        new(kept, parallel) { Faraday.new(base, ssl: ssl) { |it| it.adapter(adapter) } }
      end

      def self.load_adapter(adapter)
        case adapter
        when :paceline then require "paceline/http/faraday"
        when :net_http_persistent then require "net/http/persistent"
        else require adapter.to_s unless adapter == :net_http
        end
      end

      def initialize(kept, parallel, &make)
        @kept = kept
        @parallel = parallel
        @make = make
      end

      def call(paths)
        faraday = @kept ? @faraday ||= @make.call : @make.call
        answers = nil
        if @parallel then faraday.in_parallel { answers = paths.map { |path| faraday.get(path) } }
        else answers = paths.map { |path| faraday.get(path) }
        end
        answers.map { |response| [response.status, response.body] }
      end
    end
  end
end
