# frozen_string_literal: true

# Visitors who each ask for a page of the sale at random. It only measures.
require_relative "../lib/steady_clients"

module Bench
  class ScheduledVisitors < SteadyClients
    # When it was to be sent, how long it took (s) and what was answered: "before", "after" or "failed".
    Answer = Struct.new(:sent, :took, :said)

    def initialize(port, pages:, **options)
      super(port, host: "sale.test", **options)
      @pages = pages
    end

    # Until the time TO; the answers.
    def run(to) = start(to).call

    private

    def path(random) = "/sales/#{random.rand(@pages)}"

    def answer(due, took, status, body) = Answer.new(due, took, status == 200 ? body[/\A\w+/] : "failed")
  end
end
