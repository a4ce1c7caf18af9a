# frozen_string_literal: true

module Paceline
  module XML
    module Reading
      # Within ActiveSupport::XMLConverter, which is behind `Hash.from_xml`: while the backend is Paceline's, documents are converted in
      # the same step in which they are read. Rails' own code does it as soon as anything is not as it comes with Rails: a method that was
      # redefined, a module in between, a subclass, parsers or limits of another class, or a document with odd names.
      module Conversion
        RAILS = "active_support/core_ext/hash/conversions.rb"
        # Who is asked for the hash, and where that is written.
        WAYS = {
          -> { ActiveSupport::XmlMini.method(:parse) } => "active_support/xml_mini.rb",
          -> { ActiveSupport::XmlMini_Paceline.method(:parse) } => "active_support/xml_mini/paceline.rb"
        }.freeze
        private_constant :RAILS, :WAYS

        # Told of methods that are defined from here on.
        module Watch
          def method_added(name)
            Conversion.leave_to_rails
            super
          end
        end

        class << self
          # Puts this in front of ActiveSupport::XMLConverter, once.
          def install(converter)
            return if converter.include?(self)

            names = converter.instance_methods(false) + converter.private_instance_methods(false)
            @possible = names.all? { |name| converter.instance_method(name).source_location&.first.to_s.end_with?(RAILS) }
            converter.prepend(self)
            converter.singleton_class.prepend(Watch)
          end

          # From here on nothing is converted natively.
          def leave_to_rails
            @possible = false
          end

          # Whether `converter`'s class and the way to the backend are as Rails and this file have made them.
          def possible_for?(converter)
            @possible && converter.instance_of?(ActiveSupport::XMLConverter) &&
              ActiveSupport::XMLConverter.ancestors.first(2) == [self, ActiveSupport::XMLConverter] &&
              WAYS.all? { |way, file| way.call.source_location&.first.to_s.end_with?(file) }
          end
        end

        def initialize(xml, disallowed_types = nil)
          if Reading.native? && ActiveSupport::XmlMini.backend.equal?(ActiveSupport::XmlMini_Paceline) && Conversion.possible_for?(self)
            depth = ActiveSupport::XmlMini.depth
            xml = Reading.text_of(xml)
            @reading = Reading.convertible(xml, depth: depth)
            @reading = nil if @reading&.unusual?
          end
          if @reading
            @disallowed_types = disallowed_types || ActiveSupport::XMLConverter::DISALLOWED_TYPES
          else
            super
          end
        end

        def to_h
          return super unless @reading

          @built ||= [@reading.build(ActiveSupport::XmlMini::PARSING, @disallowed_types, ActiveSupport::XMLConverter::DisallowedType)]
          @built.first
        end
      end
    end
  end
end
