# frozen_string_literal: true

# XML for apps, under any server: `require "paceline/xml"`. Paceline::XML::Builder does what Builder::XmlMarkup does, byte for byte;
# Paceline::XML.replace_builder! puts it in its place. Compiled Rails templates are in paceline/xml/rails, reading is in
# active_support/xml_mini/paceline. Guide: docs/xml.md.
# Within an app that Paceline serves the server's own is there already.
require_relative "native" unless defined?(Paceline::Native)
require_relative "xml/characters"
require_relative "xml/markup"
require_relative "xml/builder"
require_relative "xml/events"
require_relative "xml/emit"
require_relative "xml/replacement"

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
