# frozen_string_literal: true

# Within an app that Paceline serves the server's own is there already.
require_relative "../native" unless defined?(Paceline::Native)

module Paceline
  module XML
    # Whether XML is written and read natively. If not, it is written in Ruby, and REXML reads.
    NATIVE = Native.respond_to?(:take_xml)

    warn "paceline: XML is handled in Ruby, which is slower: #{NativePart.missing}" unless NATIVE
  end
end
