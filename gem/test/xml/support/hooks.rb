# frozen_string_literal: true

module XMLPrograms
  # Methods of a builder that apps override, as source: each is tried in a subclass, in a module that is prepended, and as a singleton
  # method of one builder.
  module Hooks
    ALL = {
      escape_super: "def _escape(text) = super.tr('e', 'E')",
      escape_own: "def _escape(text) = text.to_s.gsub('&', '&#38;')",
      escape_nil: "def _escape(text) = nil",
      escape_utf16: "def _escape(text) = super.encode('UTF-16LE')",
      escape_raises: "def _escape(text) = text.to_s.include?('<') ? ::Kernel.raise(::IOError, 'no') : super",
      escape_public: "def _escape(text) = super\npublic :_escape",
      escape_attribute: "def _escape_attribute(text) = super.gsub(\"'\", '&apos;')",
      escape_attribute_own: "def _escape_attribute(text) = text.inspect",
      start_tag: "def _start_tag(name, attributes, end_too = false) = super(name.to_s.upcase, attributes, end_too)",
      start_tag_more: "def _start_tag(name, attributes, end_too = false) = super(name, (attributes || {}).merge('more' => '<'), false)",
      start_tag_own: "def _start_tag(name, attributes, end_too = false)\n @target << \"(\#{name}\"\n _insert_attributes(attributes)\n end",
      end_tag: "def _end_tag(name) = super(\"e\#{name}\")",
      end_tag_own: "def _end_tag(name) = @target << ')'",
      end_tag_raises: "def _end_tag(name) = ::Kernel.raise(::IOError, 'no end')",
      text: "def _text(text) = super(text.to_s.upcase)",
      text_own: "def _text(text) = @target << \"{\#{text}}\"",
      indent: "def _indent = super.to_s.size",
      indent_own: "def _indent = @target << (\"\\t\" * @level.to_i)",
      newline: "def _newline = @target << \"\\r\\n\"",
      newline_super: "def _newline\n super\n @target << \"|\"\n end",
      insert_attributes: "def _insert_attributes(attributes, order = []) = super(attributes, [:b, 'a'])",
      insert_attributes_own: "def _insert_attributes(*all) = @target << all.size.to_s",
      attr_value: "def _attr_value(value) = super.upcase",
      attr_value_own: "def _attr_value(value) = value",
      special: "def _special(open, close, *rest) = super(\"-\#{open}\", close, *rest)",
      special_own: "def _special(*all) = nil",
      nested: "def _nested_structures(block)\n @target << '+'\n super\n end",
      nested_own: "def _nested_structures(block) = block.call(self, 1)",
      nested_twice: "def _nested_structures(block)\n super\n super\n end",
      no_block: "def _ensure_no_block(given) = nil",
      cache: "def cache_method_call(name) = nil",
      cache_super: "def cache_method_call(name)\n @target << '*'\n super\n end",
      nil_handling: "def explicit_nil_handling? = true",
      tag: "def tag!(name, *args, &block) = super(name, *args, { 'z' => 1 }, &block)",
      tag_own: "def tag!(name, *args)\n @target << \"[\#{name}\"\n yield self if ::Kernel.block_given?\n @target << ']'\n :own\n end",
      tag_none: "def tag!(name, *args, &block) = nil",
      text_call: "def text!(text) = super(\"^\#{text}$\")",
      text_call_raw: "def text!(text) = _text(text)",
      append: "def <<(text) = super(text.to_s.swapcase)",
      append_own: "def <<(text)\n @target << '<<'\n self\n end",
      missing: "def method_missing(name, *args, &block) = super(:\"m\#{name}\", *args, &block)",
      missing_some: "def method_missing(name, *args, &block) = name == :b ? (@target << 'B') : super",
      missing_own: "def method_missing(name, *args, &block) = tag!(\"x-\#{name}\", *args, &block)",
      target: "def target! = 'another'",
      is_nil: "def nil? = true",
      comment: "def comment!(text, *rest) = super(text.to_s.strip)",
      cdata: "def cdata!(text) = super(text.to_s)",
      declare: "def declare!(*args, &block) = super(:own, *args, &block)",
      instruct: "def instruct!(name = :xml, attributes = {}) = super(name, { standalone: 'yes' }.merge(attributes))",
      a_tag: "def entry(*args, &block) = tag!(:own, *args, &block)",
      a_tag_by_parts: "def entry(*)\n _indent\n _start_tag(:parts, { 'q' => '\"' })\n _text('<raw>')\n _end_tag(:parts)\n _newline\n end",
      a_private_tag: "def title(*) = @target << 'private'\nprivate :title",
      level: "def up!(by = 1) = @level += by",
      quote: "def quote!(mark = \"'\") = @quote = mark",
      encoding: "def latin! = @encoding = 'ISO-8859-1'",
      fresh: "def fresh! = @target = +'fresh'",
      indentation: "def wide! = @indent = 5",
      variables: "def id(*) = @target << [@level, @indent, @encoding, @quote, @explicit_nil_handling].inspect",
      respond: "def respond_to?(*) = true",
      to_s: "def to_s = 'a builder'\ndef inspect = to_s",
    }.freeze

    # Classes made of `markup` (and of `events`), under the names that programs use. `base` is what has cache_method_calls.
    def self.classes(base, markup, events)
      made = { base: base, markup: markup, events: events }
      ALL.each do |name, source|
        made[:"sub_#{name}"] = Class.new(markup) { class_eval(source) }
        made[:"prepended_#{name}"] = Class.new(markup) { prepend(Module.new { module_eval(source) }) }
      end
      ALL.each_key.each_slice(3).with_index do |names, index|
        made[:"included_#{index}"] = Class.new(markup) { names.each { |name| include(Module.new { module_eval(ALL[name]) }) } }
        made[:"both_#{index}"] = Class.new(Class.new(markup) { class_eval(ALL[names.first]) }) { class_eval(ALL[names.last]) }
        made[:"events_#{index}"] = Class.new(events) { class_eval(ALL[names.first]) }
      end
      made[:initializing] = Class.new(markup) do
        def initialize(options = {})
          super({ indent: 1 }.merge(options))
          @encoding = "us-ascii"
        end
      end
      made[:initializing_late] = Class.new(markup) do
        def initialize(*)
          @mine = 1
          super
          @target << "begun"
        end
      end
      made[:without] = Class.new(markup) { undef_method(:comment!, :nil?) }
      made[:public_hooks] = Class.new(markup) { public(:_escape, :_text, :_indent, :_newline, :_start_tag, :_end_tag, :_special) }
      made
    end

    # What one builder alone may have. When tags have become methods of it cannot be seen from outside: a method_missing that comes
    # later is asked for them again.
    SINGLETON = ALL.reject { |name,| name.match?(/\A(cache|missing)/) }
  end
end
