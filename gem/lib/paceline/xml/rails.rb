# frozen_string_literal: true

# XML in Rails: `require "paceline/xml/rails"`, or `config.paceline.xml = true`. Builder::XmlMarkup is Paceline::XML::Builder from here on: in
# `.builder` templates, to_xml and atom_feed, too.
require_relative "../xml"

Paceline::XML.replace_builder!
