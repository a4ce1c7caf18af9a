# frozen_string_literal: true

module Paceline
  module XML
    # Builder::XmlEvents: instead of markup the target gets `start_tag(name, attributes)`, `end_tag(name)` and `text(text)`.
    class Events < Builder
      def text!(text)
        @target.text(text)
      end

      def _start_tag(sym, attrs, end_too = false)
        @target.start_tag(sym, attrs)
        _end_tag(sym) if end_too
      end

      def _end_tag(sym)
        @target.end_tag(sym)
      end
    end
  end
end
