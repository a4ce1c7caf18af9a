# frozen_string_literal: true

module Paceline
  module XML
    # A block was given to comment!, instruct!, cdata! or cdata_value!, which take none. Builder's own class where that is loaded already, so that code
    # that rescues it need not know whose builder it has.
    IllegalBlockError = defined?(::Builder::IllegalBlockError) ? ::Builder::IllegalBlockError : Class.new(::RuntimeError)

    # The Builder in Ruby: what each call means, in Builder's own words (its private hooks are there to be overridden by subclasses).
    # Paceline::XML::Builder does the same natively where a subclass has changed none of these.
    class Base < ::BasicObject
      class << self
        # Whether a tag's name becomes a method when it is first used. Default true.
        attr_writer :cache_method_calls

        def cache_method_calls
          defined?(@cache_method_calls) ? @cache_method_calls : superclass.cache_method_calls
        end
      end
      self.cache_method_calls = true

      def initialize(indent = 0, initial = 0, encoding = "utf-8")
        @indent = indent
        @level = initial
        @encoding = encoding.downcase
      end

      def explicit_nil_handling?
        @explicit_nil_handling
      end

      # Writes an element. A first Symbol makes `sym` its namespace; Hashes are attributes; all else is text, joined.
      # Raises ArgumentError for text together with a block. Returns the target.
      def tag!(sym, *args, &block)
        text = attributes = nil
        sym = "#{sym}:#{args.shift}" if args.first.kind_of?(::Symbol)
        sym = sym.to_sym unless sym.class == ::Symbol
        args.each do |arg|
          case arg
          when ::Hash then (attributes ||= {}).merge!(arg)
          when nil
            attributes ||= {}
            attributes[:nil] = true if explicit_nil_handling?
          else (text ||= +"") << arg.to_s
          end
        end

        if block
          ::Kernel.raise ::ArgumentError, "XmlMarkup cannot mix a text argument with a block" if text

          _indent
          _start_tag(sym, attributes)
          _newline
          begin
            _nested_structures(block)
          ensure
            _indent
            _end_tag(sym)
            _newline
          end
        elsif text
          _indent
          _start_tag(sym, attributes)
          text!(text)
          _end_tag(sym)
          _newline
        else
          _indent
          _start_tag(sym, attributes, true)
          _newline
        end
        @target
      end

      # Every other name is an element's.
      def method_missing(sym, *args, &block)
        cache_method_call(sym) if ::Paceline::XML::Base.cache_method_calls
        tag!(sym, *args, &block)
      end

      # Writes text, escaped.
      def text!(text)
        _text(_escape(text))
      end

      # Writes `text` as it is.
      def <<(text)
        _text(text)
      end

      # A builder is never nil, although `nil?` is not a method of BasicObject.
      def nil?
        false
      end

      private

      def _escape(text)
        ::Paceline::XML::Characters.encode_as(@encoding, text)
      end

      def _escape_attribute(text)
        ::Paceline::XML::Characters.attribute(_escape(text))
      end

      def _newline
        text!("\n") unless @indent == 0
      end

      def _indent
        text!(" " * (@level * @indent)) unless @indent == 0 || @level == 0
      end

      def _nested_structures(block)
        @level += 1
        block.call(self)
      ensure
        @level -= 1
      end

      # Every method of BasicObject and every tag met before is quicker than method_missing.
      def cache_method_call(sym)
        singleton = class << self; self; end
        # What is in Tags others have used, on builders that need not know whether they have.
        return if singleton.method_defined?(sym) && !singleton.instance_method(sym).owner.equal?(Tags)

        singleton.class_eval { define_method(sym) { |*args, &block| tag!(sym, *args, &block) } }
      end
    end

    # Markup: Base with a target, and all that is not an element.
    class Markup < Base
      # Options: `indent` (spaces a level; default 0, all on one line), `margin` (levels to start with), `quote` (`:single`, else double),
      # `target` (anything with `<<`, written to in place; default a new String), `explicit_nil_handling`.
      def initialize(options = {})
        indent = options[:indent] || 0
        margin = options[:margin] || 0
        @quote = options[:quote] == :single ? "'" : '"'
        @explicit_nil_handling = options[:explicit_nil_handling]
        super(indent, margin)
        @target = options[:target] || +""
      end

      # What is written to: the same object all the time.
      def target!
        @target
      end

      def comment!(comment_text)
        _ensure_no_block(::Kernel.block_given?)
        _special("<!-- ", " -->", comment_text, nil)
      end

      # Writes a declaration (<!DOCTYPE ...>): Symbols as they are, Strings in quotes, others not at all.
      def declare!(inst, *args, &block)
        _indent
        @target << "<!#{inst}"
        args.each do |arg|
          case arg
          when ::String then @target << %( "#{arg}")
          when ::Symbol then @target << " #{arg}"
          end
        end
        if ::Kernel.block_given?
          @target << " ["
          _newline
          _nested_structures(block)
          @target << "]"
        end
        @target << ">"
        _newline
      end

      # Writes a processing instruction. `:xml` sets the encoding that text is written in from here on.
      def instruct!(directive_tag = :xml, attrs = {})
        _ensure_no_block(::Kernel.block_given?)
        if directive_tag == :xml
          attrs = { version: "1.0", encoding: "UTF-8" }.merge(attrs)
          @encoding = attrs[:encoding].downcase
        end
        _special("<?#{directive_tag}", "?>", nil, attrs, %i[version encoding standalone])
      end

      def cdata!(text)
        _ensure_no_block(::Kernel.block_given?)
        _special("<![CDATA[", "]]>", text.gsub("]]>", "]]]]><![CDATA[>"), nil)
      end

      def cdata_value!(open, text)
        _ensure_no_block(::Kernel.block_given?)
        _special("<#{open}>", "</#{open}>", "<![CDATA[#{text.gsub("]]>", "]]]]><![CDATA[>")}]]>", nil)
      end

      private

      def _text(text)
        @target << text
      end

      def _special(open, close, data = nil, attrs = nil, order = [])
        _indent
        @target << open
        @target << data if data
        _insert_attributes(attrs, order) if attrs
        @target << close
        _newline
      end

      def _start_tag(sym, attrs, end_too = false)
        @target << "<#{sym}"
        _insert_attributes(attrs)
        @target << "/" if end_too
        @target << ">"
      end

      def _end_tag(sym)
        @target << "</#{sym}>"
      end

      def _insert_attributes(attrs, order = [])
        return if attrs.nil?

        order.each do |name|
          value = attrs[name]
          @target << %( #{name}=#{@quote}#{_attr_value(value)}#{@quote}) if value
        end
        attrs.each { |name, value| @target << %( #{name}=#{@quote}#{_attr_value(value)}#{@quote}) unless order.member?(name) }
      end

      # A Symbol is written as it is: it may hold references.
      def _attr_value(value)
        ::Symbol === value ? value.to_s : _escape_attribute(value.to_s)
      end

      def _ensure_no_block(given)
        ::Kernel.raise ::Paceline::XML::IllegalBlockError, "Blocks are not allowed on XML instructions" if given
      end
    end
  end
end
