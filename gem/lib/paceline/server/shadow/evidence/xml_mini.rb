# frozen_string_literal: true

require_relative "observer"

# XML that ActiveSupport reads: `Hash.from_xml` and `XmlMini.parse`. Paceline's own backend is left alone, because a hook would switch off what makes it fast.
module Paceline
  module Server
    module Shadow
      class Evidence
        class XmlMini < Observer
          # Before the methods of Hash and of ActiveSupport::XmlMini themselves.
          module FromXml
            def from_xml(...)
              observer = XmlMini.active or return super
              observer.read { super }
            end
          end

          module Parse
            def parse(...)
              observer = XmlMini.active or return super
              observer.read { super }
            end
          end

          def initialize(places)
            super
            @calls = 0
            @meter = Meter.new
            @tally = Tally.new
          end

          # @api private
          def read(&block)
            unless @within
              @calls += 1
              @tally.add(@places.here)
            end
            within, @within = @within, true
            @meter.run(&block)
          ensure
            @within = within
          end

          def to_h
            { backend: XmlMini.backend, calls: @calls, us: @meter.us.round, at: @tally.top } if @calls.positive?
          end

          # The name as in `XmlMini.backend = "REXML"`; nil without ActiveSupport's.
          def self.backend
            return unless defined?(::ActiveSupport::XmlMini) && ::ActiveSupport::XmlMini.respond_to?(:backend)

            ::ActiveSupport::XmlMini.backend&.name.to_s.delete_prefix("ActiveSupport::XmlMini_")
          end

          private

          def install
            return if [nil, "Paceline"].include?(XmlMini.backend)

            self.class.hook(::ActiveSupport::XmlMini.singleton_class, Parse)
            self.class.hook(::Hash.singleton_class, FromXml) if ::Hash.respond_to?(:from_xml)
          end
        end
      end
    end
  end
end
