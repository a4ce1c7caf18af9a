# frozen_string_literal: true

require_relative "replay"

module Paceline
  module XML
    # What a compiled template calls for each element: Replay's functions, natively if the native part was built.
    Emit = Native.respond_to?(:xml_emit) ? Native.xml_emit(Replay) : Replay
  end
end
