# frozen_string_literal: true

require_relative "observer"

# What the gem builder writes. Nothing is seen of Paceline's own builder in its place, nor of other libraries'.
module Paceline
  module Server
    module Shadow
      class Evidence
        class Xml < Observer
          # The stack is looked at for so many tags of a request.
          MAX_PLACES = 100
          private_constant :MAX_PLACES

          # Before Builder::XmlMarkup, which has none of Kernel's methods.
          module Hooks
            def tag!(*arguments, &block)
              observer = Xml.active or return super
              observer.tag(block) { |inner| super(*arguments, &inner) }
            end

            # So are those elements that are written with a method of their name.
            %i[text! cdata! comment! instruct!].each do |name|
              define_method(name) do |*arguments|
                observer = Xml.active
                observer ? observer.write { super(*arguments) } : super(*arguments)
              end
            end
          end

          def initialize(places)
            super
            @tags = 0
            @meter = Meter.new
            @tally = Tally.new
          end

          # @api private An element is written. Yields the block that writes what is in it, whose own time does not count.
          def tag(block)
            @tags += 1
            @tally.add(@places.here) if @tags <= MAX_PLACES
            content = block && proc { |*arguments| @meter.pause { block.call(*arguments) } }
            @meter.run { yield content }
          end

          # @api private
          def write(&block)
            @meter.run(&block)
          end

          def to_h
            { tags: @tags, us: @meter.us.round, at: @tally.top } if @tags.positive?
          end

          private

          def install
            return unless defined?(::Builder::XmlMarkup) && !ours?

            self.class.hook(::Builder::XmlMarkup, Hooks)
          end

          def ours?
            defined?(::Paceline::XML::Builder) && ::Builder::XmlMarkup.equal?(::Paceline::XML::Builder)
          end
        end
      end
    end
  end
end
