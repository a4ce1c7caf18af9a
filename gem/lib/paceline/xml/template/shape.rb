# frozen_string_literal: true

module Paceline
  module XML
    module Template
      # What a call on the builder writes, if that is known before it runs: the element's markup ready but for its values (a shape, see
      # Replay) and the arguments that make these.
      class Shape
        # Names that can be told from the rest of a tag again.
        NAME = /\A[[:alpha:]_][[:alnum:]_.:-]*\z/
        # Characters that Builder replaces, or that a shape means something else by.
        REFUSED = /[\u{0}-\u{8}\u{A}-\u{1F}\u{7F}-\u{9F}\u{FFFE}\u{FFFF}]/
        SYMBOL = /\A:(?:([A-Za-z_]\w*)|"([^"\\]*)"|'([^'\\]*)')\z/
        STRING = /\A(?:"([^"\\]*)"|'([^'\\]*)')\z/
        INTERPOLATION = /\A:?"[^"]*#[{$@]/
        KEY = /\A(?:([[:alpha:]_][[:alnum:]_]*):|(["'])([^"'\\]*)\2:|(:?)(["'])([^"'\\]*)\5\s*=>|:([[:alpha:]_][[:alnum:]_]*)\s*=>)\z/
        WORDS = { "nil" => nil, "true" => true, "false" => false }.freeze
        private_constant :NAME, :REFUSED, :SYMBOL, :STRING, :INTERPOLATION, :KEY, :WORDS

        # What Builder does with a name of its own is no element. (In Tags are elements that have been used.)
        def self.reserved?(name)
          Builder.instance_method(name).owner != Tags
        rescue NameError
          false
        end

        # The Shape of `call` in `source` (bytes); nil where it has none.
        def self.of(call, source)
          new(call, source).tap(&:read) if call.arguments
        rescue UnsupportedCode
          nil
        end

        # What Emit is to do: :leaf, :element or :text.
        attr_reader :kind
        attr_reader :markup, :end_tag

        # The arguments that are values, in the order in which Emit takes them.
        attr_reader :values

        class UnsupportedCode < StandardError; end
        private_constant :UnsupportedCode

        def initialize(call, source)
          @call = call
          @source = source
          @values = []
        end

        def read
          arguments = @call.arguments.dup
          return read_text(arguments) if @call.name == "text!"

          name = name(arguments)
          texts, attributes = arguments.partition { |argument| argument.key_start.nil? }
          refuse if texts.size > 1 || (texts.any? && (@call.block || arguments.first != texts.first))
          text = texts.any? ? text(texts.first) : nil
          # It might turn out as a Symbol, which would be the namespace if there was none.
          refuse if @namespace && values.any?
          start = "<#{name}#{attributes(attributes, values.any?)}"
          @kind = @call.block ? :element : :leaf
          @end_tag = "</#{name}>"
          @markup = if @call.block then "#{start}>"
                    elsif text then "#{start}>#{text}#{@end_tag}"
                    else "#{start}/>"
                    end
        end

        private

        def refuse
          raise UnsupportedCode
        end

        def read_text(arguments)
          refuse if arguments.size != 1 || arguments[0].key_start || @call.block
          constant = constant(arguments[0])
          refuse unless constant && constant[0].is_a?(String)
          @kind = :text
          @markup = text(arguments[0])
          refuse if values.any?
        end

        # The element's name. Takes what belongs to it from `arguments`.
        def name(arguments)
          name = @call.name
          if name == "tag!"
            first = arguments.shift
            constant = first && first.key_start.nil? && constant(first)
            refuse unless constant && (constant[0].is_a?(String) || constant[0].is_a?(Symbol))
            name = constant[0].to_s
          elsif Shape.reserved?(name)
            refuse
          end
          first = arguments.first
          if first && first.key_start.nil? && (local = constant(first)) && local[0].is_a?(Symbol)
            arguments.shift
            @namespace = true
            name = "#{name}:#{local[0]}"
          end
          refuse unless NAME.match?(name)
          name
        end

        def text(argument)
          constant = constant(argument)
          return value(argument, Replay::TEXT) if constant.nil? || constant[0].nil? || REFUSED.match?(constant[0].to_s)

          Characters.encode(constant[0].to_s)
        end

        # A Hash as text would be merged by its keys: what is in a shape has to be Symbols then.
        def attributes(arguments, text_unknown)
          names = []
          arguments.map do |argument|
            name, symbol = key(argument)
            refuse if !NAME.match?(name) || names.include?(name) || (text_unknown && !symbol)
            names << name
            %( #{name}="#{attribute(argument)}")
          end.join
        end

        def key(argument)
          match = KEY.match(slice(argument.key_start, argument.start).strip) or refuse
          refuse if match[0].match?(/"[^"]*#[{$@]/)
          [match[1] || match[3] || match[6] || match[7], match[6].nil? || match[4] == ":"]
        end

        def attribute(argument)
          constant = constant(argument)
          return value(argument, Replay::ATTRIBUTE) if constant.nil? || REFUSED.match?(constant[0].to_s)

          escaped = Characters.encode(constant[0].to_s).gsub('"', "&quot;")
          return value(argument, Replay::ATTRIBUTE) if constant[0].is_a?(Symbol) && escaped != constant[0].to_s

          escaped
        end

        def value(argument, mark)
          @values << argument
          mark
        end

        # [the value] of a literal that is what it looks like; nil for all else.
        def constant(argument)
          text = slice(argument.start, argument.finish)
          return [WORDS[text]] if WORDS.key?(text)
          return [text.to_i] if text.match?(/\A(?:0|[1-9]\d*)\z/)
          return if INTERPOLATION.match?(text)

          if (match = STRING.match(text)) then [match[1] || match[2]]
          elsif (match = SYMBOL.match(text)) then [(match[1] || match[2] || match[3]).to_sym]
          end
        end

        def slice(start, finish)
          @source.byteslice(start...finish).force_encoding(Encoding::UTF_8)
        end
      end
    end
  end
end
