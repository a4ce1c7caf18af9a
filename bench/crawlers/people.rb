# frozen_string_literal: true

# Visitors, or a crawler. It only measures.
require_relative "../lib/steady_clients"

module Bench
  class CrawlersPeople < SteadyClients
    # How long it took (s), from the time at which it was due, and the status; nil: none.
    Answer = Struct.new(:took, :status)

    def initialize(port, pages:, **options)
      super(port, host: "pages.test", **options)
      @pages = pages
    end

    private

    def path(random) = "/pages/#{random.rand(@pages)}"

    def answer(_due, took, status, _body) = Answer.new(took, status)

    # What could not be sent in time is left out: a crawler does not catch up.
    def next_due(due, pause) = due + pause * [1, ((Time.now.to_f - due) / pause).floor].max
  end
end
