# frozen_string_literal: true

# How long a request took inside the application, as it says itself (x-runtime), and outside, as its client sees it: one connection, one request after the other.
# It is a Contest's probe, so all servers take turns.
require "io/wait"
require "socket"
require_relative "../lib/arithmetic"
require_relative "../lib/running_server"

module Bench
  class InsideOutside
    REQUESTS = 40
    # Seconds for some more of a response.
    LIMIT = 30
    Request = Struct.new(:outside, :inside)

    def initialize(path)
      @path = path
      @seen = Hash.new { |all, server| all[server] = {} }
    end

    # Called before a round's loads.
    def call(visit, round)
      @seen[visit.server.name][round] = ask(visit.port)
    end

    # {server => {round => [median outside, median inside]}}, ms.
    def medians
      @seen.transform_values { |rounds| rounds.transform_values { |requests| %i[outside inside].map { |what| Arithmetic.median(requests.map(&what)) * 1000 } } }
    end

    # What a response that arrives in TEXTs says of itself: its body's length once its head is there and it says so; :chunked; nil before.
    def self.length(text)
      head = text[/\A.*?\r\n\r\n/m] or return
      head[/^transfer-encoding:\s*chunked/i] ? :chunked : head[/^content-length:\s*(\d+)/i, 1]&.to_i || :close
    end

    # Whether TEXT is a whole response.
    def self.whole?(text)
      case (length = length(text))
      when nil, :close then false
      when :chunked then text.end_with?("\r\n0\r\n\r\n")
      else text.bytesize >= text.index("\r\n\r\n") + 4 + length
      end
    end

    private

    def ask(port)
      Array.new(REQUESTS) { request(port) }
    ensure
      close
    end

    # A connection is opened when there is none: what that takes is the client's time, too.
    def request(port)
      began = now
      @socket ||= connect(port)
      @socket.write("GET #{@path} HTTP/1.1\r\nHost: bench.test\r\n\r\n")
      text = response
      took = now - began
      close if text[/\A.*?\r\n\r\n/m].to_s.match?(/^connection:\s*close/i)
      inside = text[/^x-runtime:\s*(\S+)/i, 1] or raise RunningServer::Failed, "#{@path}: no x-runtime in #{text.lines.first.inspect}"
      Request.new(took, Float(inside))
    end

    # Without a length it goes on until the server closes the connection.
    def response
      text = +""
      until self.class.whole?(text)
        raise RunningServer::Failed, "#{@path}: no whole response within #{LIMIT} s" unless @socket.wait_readable(LIMIT)

        text << @socket.readpartial(65_536)
      end
      text
    rescue EOFError
      close
      text
    end

    def close
      @socket&.close
      @socket = nil
    end

    def connect(port)
      TCPSocket.new("127.0.0.1", port).tap { |socket| socket.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1) }
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
