# frozen_string_literal: true

# Visitors of bench/apps/sessions, each with a cookie of its own, and the load they make: a connection is whoever's turn it is, and nobody asks
# twice at the same time. Each answer must count one more than the visitor's last one did.
require_relative "../lib/load"

module Bench
  # To Load and ClientConnection it is a kind of request.
  class Visitor
    PATH = "/visit"
    attr_accessor :known_encoding

    def name = "visit"
    def path = PATH
    def exact? = false

    def bytes(_keep_alive)
      "GET #{PATH} HTTP/1.1\r\nHost: bench.test\r\nAccept: */*\r\n#{"Cookie: #{@cookie}\r\n" if @cookie}\r\n"
    end

    # What it gets besides the page. Cookies of others than the session are none of these applications'.
    def take(head)
      set = head[/^set-cookie: *([^;\r]+)/i, 1]
      @cookie = set if set
    end

    # In another process the same visitor may have gone on.
    def begin_anew
      @last = nil
    end

    # Nil, or what is wrong with the page.
    def wrong(_length, page)
      count = page[%r{<h1>Visit (\d+)</h1>}, 1]&.to_i
      return "the page is another" unless count && page.include?("</ul>")
      return "counts #{count} after #{@last}" if @last && count != @last + 1

      @last = count
      nil
    end
  end

  class VisitorConnection < ClientConnection
    private

    def verify
      super
      @kind.take(@head) unless @failure
    end
  end

  class Visits < Load
    def initialize(port:, visitors:, connections:, seconds: nil, count: nil, seed: 1)
      super(port: port, mix: [[visitors.first, 1.0]], connections: 0, keep_alive: true, seconds: seconds, count: count)
      @idle = Array.new(connections) { VisitorConnection.new(port, true) }
      visitors.each(&:begin_anew)
      @waiting = visitors.shuffle(random: Random.new(seed))
    end

    private

    # In turns, so that each comes as often as another.
    def choose = @waiting.shift

    def finished(connection)
      @waiting << connection.kind
      super
    end
  end
end
