# frozen_string_literal: true

require_relative "../evidence/places"
require_relative "memory"

# What if this template took no time? Its output of a request's first replay is given in the later ones, call by call, with what it has said by
# `content_for`. What else it does (setting variables, for example) is left out.
module Paceline
  module Server
    module Shadow
      module Patches
        class FreeView
          class << self
            # The one that is in use, or nil.
            attr_reader :active

            # `view`: a name as in the evidence.
            def apply(params, shadow)
              raise Inapplicable, "the application does not use ActionView" unless defined?(::ActionView::Template)

              name = params["view"].to_s
              raise Inapplicable, "no view is named" if name.empty?

              @active = new(name, shadow)
              ::ActionView::Template.prepend(Rendering)
            end
          end

          # Before ActionView::Template's own method. With a buffer it streams.
          module Rendering
            def render(view, locals, *buffer, **options, &block)
              return super if buffer.first || !FreeView.active.wants?(identifier)

              FreeView.active.output(identifier, view) { super }
            end
          end

          def initialize(name, shadow)
            @name = name
            @places = Evidence::Places.new(shadow.root)
            @wanted = Hash.new { |known, path| known[path] = @places.name(path) == @name }
            @memory = Memory.new(shadow)
          end

          def wants?(identifier)
            @wanted[identifier.to_s]
          end

          # The kept output, or what the block returns.
          def output(identifier, view)
            key = [identifier, @memory.next_number(identifier)]
            return given(@memory[key], view) if !@memory.recording? && @memory[key]

            before = contents(view)
            output = yield
            @memory[key] = [output.dup, added(before, contents(view))] if @memory.recording?
            output
          end

          private

          def given(kept, view)
            output, contents = kept
            contents.each { |name, (appended, text)| appended ? view.view_flow.append(name, text) : view.view_flow.set(name, text.dup) }
            output.dup
          end

          # What `content_for` has by now.
          def contents(view)
            flow = view.view_flow if view.respond_to?(:view_flow)
            flow.respond_to?(:content) ? flow.content.transform_values(&:dup) : {}
          end

          # {name => [whether it was appended, text]}
          def added(before, after)
            after.each_with_object({}) do |(name, text), found|
              old = before[name].to_s
              next if text == old

              appended = !old.empty? && text.start_with?(old)
              found[name] = [appended, appended ? safe(text[old.length..], text) : text]
            end
          end

          def safe(text, like)
            like.respond_to?(:html_safe?) && like.html_safe? ? text.to_str.html_safe : text
          end
        end
      end
    end
  end
end
