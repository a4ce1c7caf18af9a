# frozen_string_literal: true

require_relative "replay"

module Paceline
  module XML
    # What a compiled template calls for each element: Replay's functions, natively if the native part was built.
    Emit = Replay
  end
end
