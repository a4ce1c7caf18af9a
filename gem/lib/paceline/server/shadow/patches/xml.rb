# frozen_string_literal: true

require_relative "xml_subclasses"

# XML by Paceline: `config.paceline.xml = true` for writing, `ActiveSupport::XmlMini.backend = "Paceline"` for reading.
module Paceline
  module Server
    module Shadow
      module Patches
        module Xml
          # Whether the application writes with Paceline's builder already.
          def self.replaced?
            !!(defined?(::Paceline::XML::Builder) && defined?(::Builder::XmlMarkup) && ::Builder::XmlMarkup.equal?(::Paceline::XML::Builder))
          end

          def self.apply(_params, _shadow)
            raise Inapplicable, "the application has neither Builder nor ActionView" unless defined?(::Builder) || defined?(::ActionView)
            raise Inapplicable, "Builder::XmlMarkup is Paceline's already" if replaced?

            subclasses = XmlSubclasses.of_builder
            Patches.load_library("paceline/xml")
            ::Paceline::XML.replace_builder!
            subclasses.each { |one| XmlSubclasses.load_again(one) }
          end
        end

        module XmlMini
          def self.apply(_params, _shadow)
            raise Inapplicable, "the application does not use ActiveSupport::XmlMini" unless defined?(::ActiveSupport::XmlMini)
            raise Inapplicable, "XmlMini's backend is Paceline's already" if ::ActiveSupport::XmlMini.backend&.name.to_s.end_with?("_Paceline")

            Patches.load_library("active_support/xml_mini/paceline")
            ::ActiveSupport::XmlMini.backend = "Paceline"
          end
        end
      end
    end
  end
end
