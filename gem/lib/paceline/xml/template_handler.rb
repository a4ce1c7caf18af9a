# frozen_string_literal: true

require_relative "template"
require "action_view"
require "action_view/template/handlers/builder"

module Paceline
  module XML
    # Rails' handler for `.builder`, which gets the template compiled. What Rails puts around it stays Rails' own, so that what it does in
    # each of its versions is kept; the Builder that it makes is ours by then (Paceline::XML.replace_builder!).
    class TemplateHandler < ::ActionView::Template::Handlers::Builder
      def call(template, source)
        super(template, compiled(template, source))
      end

      # For Rails 7.1 and later: `spot` is where ErrorHighlight found a failure in the compiled code. Returns it with the line and the
      # columns of the template; without columns if these can't be told.
      def translate_location(spot, location, source)
        columns = columns_of(spot, source)
        line = location.lineno
        spot.merge(first_lineno: line, last_lineno: columns ? line : line + 1, first_column: columns ? columns.begin : 0,
                   last_column: columns ? columns.end : 0, snippet: source.lines[line - 1], script_lines: source.lines)
      end

      private

      # A mistake in here is no reason for a page to fail: what is not compiled writes the same.
      def compiled(template, source)
        Template.compile(source, locals: locals_of(template))
      rescue StandardError => e
        warn "paceline: #{template.identifier} is not compiled: #{e.message.lines.first&.chomp} (#{e.class}, #{e.backtrace&.first})"
        source
      end

      # Its local variables: names, or the text of a list of parameters.
      def locals_of(template)
        strict = template.strict_locals! if template.respond_to?(:strict_locals!)
        strict || template.locals || []
      end

      def columns_of(spot, source)
        lines = spot[:script_lines]
        head = lines.index { |line| line.match?(/\A\s*def /) }
        number = spot[:first_lineno] - head - 1
        edits = Template.edits(source, locals: locals_in(lines[head], lines[head + 1]))
        compiled = edits.apply.lines[number - 1].chomp
        # Rails writes something of its own before the first line and behind the last one.
        shift = lines[head + number].index(compiled)
        return unless spot[:first_lineno] == spot[:last_lineno] && (shift.zero? || number == 1)

        columns = edits.original_columns(number, spot[:first_column] - shift...spot[:last_column] - shift)
        line = source.lines[number - 1]
        line.byteslice(0, columns.begin).length...line.byteslice(0, columns.end).length
      rescue StandardError
        # The page that shows one error must not have another.
        nil
      end

      # The local variables that a method which Rails has made begins with.
      def locals_in(head, line)
        strict = head[/\(local_assigns, output_buffer, (.+?)(?:, &_)?\)\s*\z/, 1]
        strict && strict != "&_" ? strict : line.scan(/(\S+) = local_assigns\[:\1\];/).flatten
      end
    end
  end
end
