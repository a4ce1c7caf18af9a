# frozen_string_literal: true

require_relative "../xml"
require_relative "template/tree"
require_relative "template/reader"
require_relative "template/shape"
require_relative "template/edits"
require_relative "template/inlining"
require_relative "template/compiler"

module Paceline
  module XML
    # Builder templates compiled: each call on the template's own builder that has a constant name becomes one call of Emit with ready
    # markup. What can't be proven to mean the same stays as it is. Knows nothing of Rails (paceline/xml/template_handler does).
    module Template
      # `source`, a template in which the local variable `xml` is a Paceline::XML::Builder, compiled: a String of as many lines, each
      # statement on its own. `locals` are the names of the other local variables there are, or the parameters as they would stand in a
      # `def` (strict locals). A source that is no valid Ruby or not in UTF-8 is returned unchanged.
      def self.compile(source, locals: [])
        edits(source, locals: locals).apply
      end

      # What compile does to `source`, as Edits.
      def self.edits(source, locals: [], reader: Reader.best)
        Compiler.new(source, locals, reader).edits
      end
    end
  end
end
