# frozen_string_literal: true

# XML in Rails: `require "paceline/xml/rails"`, or `config.paceline.xml = true`. `.builder` templates are compiled, and Builder::XmlMarkup is
# Paceline::XML::Builder from here on, for to_xml and atom_feed too.
require_relative "../xml"
require "active_support"
require "active_support/lazy_load_hooks"

Paceline::XML.replace_builder!

ActiveSupport.on_load(:action_view) do
  require_relative "template_handler"
  ActionView::Template.register_template_handler(:builder, Paceline::XML::TemplateHandler.new)
end
