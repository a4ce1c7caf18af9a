# frozen_string_literal: true

# What the application has said of when its page changes (Paceline.changes_at), as a header that the front takes out. Keeps nothing past the request.
require_relative "../changes"

module Paceline
  module Server
    module Changes
      HEADER = "paceline-changes-at"
      TOLD = :paceline_changes_at
      private_constant :HEADER, :TOLD

      module_function

      # A request begins.
      def start
        Thread.current[TOLD] = nil
      end

      # The response's headers with the announcement, if there is one.
      def announce(headers)
        times = Thread.current[TOLD] or return headers
        Thread.current[TOLD] = nil
        headers = headers.to_h
        said = [*headers[HEADER], *times.map { |time| format("%.3f", time) }]
        headers.merge(HEADER => said.join(", "))
      end
    end
  end
end
