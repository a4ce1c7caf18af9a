# frozen_string_literal: true

# Visitors of bench/apps/sessions, each with a cookie of its own, and the load they make: a connection is for the visitor whose turn it is, and no
# visitor has two requests at the same time. Each answer must count one more than the visitor's last one did.
require_relative "../lib/load"

module Bench
  class Visits < Load
    PATH = "/visit"

    # COOKIES: of each visitor, nil for a new one. Those in the end are in the result.
    def initialize(port:, cookies:, connections:, seconds: nil, count: nil, seed: 1)
      super(port: port, mix: [[Kind.new("visit", PATH), 1.0]], connections: connections, keep_alive: true, seconds: seconds, count: count, seed: seed, cookies: cookies)
    end
  end
end
