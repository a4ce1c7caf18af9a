# frozen_string_literal: true

# Within an app that Paceline serves the server's own is there already.
require_relative "../native" unless defined?(Paceline::Native)

module Paceline
  module XML
    # Whether XML is written and read natively. If not, the same is done in Ruby.
    NATIVE = Native.respond_to?(:take_xml)

    unless NATIVE
      why = if ENV["PACELINE_NATIVE"] == "0" then "PACELINE_NATIVE=0 says so"
            elsif Native then "the native part was built without it: cargo was missing"
            else "the native part is not built for this Ruby (#{RUBY_VERSION}, #{RUBY_PLATFORM})"
            end
      warn "paceline: XML is handled in Ruby, which is slower: #{why}"
    end
  end
end
