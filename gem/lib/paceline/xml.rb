# frozen_string_literal: true

# XML for apps, under any server: `require "paceline/xml"`. Paceline::XML::Builder does what Builder::XmlMarkup does, byte for byte;
# Paceline::XML.replace_builder! puts it in its place. In Rails paceline/xml/rails does that, reading is in
# active_support/xml_mini/paceline. Guide: docs/xml.md.
require_relative "xml/native"
require_relative "xml/characters"
require_relative "xml/markup"
require_relative "xml/builder"
require_relative "xml/events"
require_relative "xml/replacement"
