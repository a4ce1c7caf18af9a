# frozen_string_literal: true

module Paceline
  module XML
    # What a compiled template writes with (Emit), done by the builder's own calls: the meaning of each. Emit does the same natively and
    # comes here for whatever it does not take: a builder with hooks of its own, another quote or encoding, values that are no text.
    #
    # A *shape* is the markup of one element as a String that is ready but for its values: "\x01" stands where the value of an attribute
    # goes and "\x02" where text goes: `<link href="\x01" rel="self">\x02</link>`, `<br/>`, `<b>bold</b>`, `<entry id="\x01">`. Names,
    # text and values that are in it are escaped, values stand in double quotes. The value of the text comes first, those of attributes
    # follow in their order. Names of attributes are Symbols wherever that makes a difference.
    module Replay
      ATTRIBUTE = "\x01"
      TEXT = "\x02"
      NAME = /\A<([^\s>\/]+)/
      ATTRIBUTES = / ([^\s=]+)="([^"]*)"/
      CONTENT = /\A[^>]*>(.*)<\/[^>]*>\z/m
      CHARACTERS = { "&amp;" => "&", "&lt;" => "<", "&gt;" => ">", "&quot;" => '"', "&#10;" => "\n", "&#13;" => "\r" }.freeze
      private_constant :NAME, :ATTRIBUTES, :CONTENT, :CHARACTERS

      class << self
        # A whole element without a block, `<br/>` or `<b>\x02</b>`. Returns the target, as all of these do.
        def leaf(xml, shape, *values)
          xml.tag!(*element_of(shape, values))
        end

        # A whole element with a block, which gets the builder. The shape is that of the start tag.
        def element(xml, shape, *values, &block)
          xml.tag!(*element_of(shape, values), &block)
        end

        # A start tag; `close` must follow, however the way there ends.
        def open(xml, shape, *values)
          name, attributes = element_of(shape, values)
          name = name.to_sym
          xml.instance_exec do
            _indent
            _start_tag(name, attributes)
            _newline
            @level += 1
            @target
          end
        end

        # The end tag: `shape` is `</entry>`.
        def close(xml, shape)
          name = shape[2..-2].to_sym
          xml.instance_exec do
            @level -= 1
            _indent
            _end_tag(name)
            _newline
            @target
          end
        end

        # Text that is escaped already, constant as it is.
        def text(xml, escaped)
          xml.text!(unescape(escaped))
        end

        private

        # The arguments of tag! for this shape and these values.
        def element_of(shape, values)
          values = values.dup
          content = shape[CONTENT, 1]
          text = [content == TEXT ? values.shift : unescape(content)] if content
          start = shape[/\A[^>]*>/]
          attributes = start.scan(ATTRIBUTES).to_h { |name, value| [name.to_sym, value == ATTRIBUTE ? values.shift : unescape(value)] }
          [start[NAME, 1], *text, *([attributes] unless attributes.empty?)]
        end

        def unescape(text)
          text.gsub(/&[^;]+;/, CHARACTERS)
        end
      end
    end
  end
end
