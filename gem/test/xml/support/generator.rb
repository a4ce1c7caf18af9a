# frozen_string_literal: true

module XMLPrograms
  # Makes programs (see program.rb) at random: nearly always something an app would write, with something odd in it.
  class Generator
    TAGS = %i[a b c entry title link updated item price name p id class send to_s inspect object_id freeze dup clone hash method methods then tap
              display instance_of? is_a? puts print raise loop lambda proc format test select open system exit sleep rand gets
              größe 日本 entry= up! quote! latin! fresh! wide! shout! odd? [] + - =~ === <=> -@ call to_ary to_str to_hash to_proc coerce each
              singleton_methods instance_variable_get define_singleton_method respond_to? yield_self frozen? nil].freeze
    # Private or defined in BasicObject: from outside they are tags as well, and then methods that the builder itself calls.
    DANGEROUS = %i[_escape _text _indent _newline _start_tag _end_tag _special _insert_attributes _attr_value _escape_attribute _ensure_no_block
                   _nested_structures initialize].freeze
    BASIC = %i[== != ! equal? instance_exec].freeze
    NAMES = ["a", "b:c", "", " ", "a b", "a\0b", "é", "\u{1F600}", "1", "<&>", "a\"b", "xml", "_x"].freeze
    PIECES = ["a", "text", "Hello & <b>good</b>", "x < y > z", '"', "'", "\n", "\r\n", "\t", "&amp;", "]]>", "--", "\0", "\u001F", "\u007F",
              "\u0080", "\u0085", "\u0081", "\u009F", "\u0091\u0092", "\u00A0", "é", "ß", "€", "日本", "\u2028", "\uD7FF", "\uE000", "\uFFFD",
              "\uFFFE", "\uFFFF", "\uFDD0", "\uFEFF", "\u{10000}", "\u{1F600}", "\u{10FFFF}"].map(&:freeze).freeze
    BROKEN = ["\xFF", "\xC3", "\xE2\x82", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xC0\x80", "\x80", "\x95", "\xF0\x9F\x98", "\xE9"].map { |s| s.b.freeze }.freeze
    ENCODINGS = %w[BINARY ISO-8859-1 Windows-1252 Shift_JIS EUC-JP UTF-16LE UTF-16BE UTF-16 UTF-32LE UTF-7 US-ASCII ISO-2022-JP GB18030
                   ISO-8859-15 IBM437 KOI8-R UTF8-MAC EMACS-MULE Windows-31J CESU-8].freeze
    DECLARED = ["UTF-8", "utf-8", "UTF-16", "UTF-16LE", "ISO-8859-1", "iso-8859-15", "US-ASCII", "ascii", "Shift_JIS", "windows-1252", "UTF-7",
                "ISO-2022-JP", "no-such", "", "binary", "locale", "internal", "UTF8-MAC"].freeze
    PRIVATE = [[:_escape, 1], [:_escape_attribute, 1], [:_text, 1], [:_indent, 0], [:_newline, 0], [:_attr_value, 1], [:_end_tag, 1],
               [:_start_tag, 3], [:_special, 2], [:_insert_attributes, 1], [:_ensure_no_block, 1]].freeze

    def initialize(seed, classes)
      @random = Random.new(seed)
      @subclasses = classes - %i[markup events]
    end

    # Two of five are tame: only what a well-behaved app does.
    def program
      @depth = 0
      @tame = chance(40)
      @builders = chance(8) ? 2 : 1
      builders = Array.new(@builders) { |index| builder(index) }
      { builders: builders, ops: ops(2 + @random.rand(7)), cached: chance(50) }
    end

    private

    def chance(percent) = @random.rand(100) < percent
    def pick(list) = list[@random.rand(list.size)]

    def klass
      roll = @random.rand(100)
      return :markup if roll < 76

      roll < 79 ? :events : pick(@subclasses)
    end

    def builder(index)
      return [:markup, chance(50) ? { indent: 2 } : {}, chance(50) ? :none : [:string, "é", "UTF-8"]] if @tame

      klass = self.klass
      [klass, options, klass.match?(/\Aevents/) && chance(80) ? [:log, :self] : target(index)]
    end

    def options
      made = {}
      made[:indent] = chance(85) ? pick([0, 1, 2, 2, 4]) : pick([-1, 1.5, "2", true, 2**64, nil, :two]) if chance(60)
      made[:margin] = chance(85) ? pick([0, 1, 3]) : pick([-2, 0.5, "1", true, nil]) if chance(15)
      made[:quote] = pick([:single, :single, :double, "single", nil, "'"]) if chance(20)
      made[:explicit_nil_handling] = pick([true, true, false, nil, :yes]) if chance(20)
      made[:escape_attrs] = true if chance(2)
      made
    end

    def target(index)
      return :none if chance(45)
      return [:builder, 0] if index == 1 && chance(40)
      return [:target, 0] if index == 1 && chance(60)

      roll = @random.rand(100)
      if roll < 50 then text(pick([[], [:shared], [:long], [:frozen], [:subclass], [:safe], [:singleton_append], [:noticing]]), %w[UTF-8 UTF-8 UTF-8 BINARY US-ASCII ISO-8859-1 UTF-16LE Shift_JIS])
      elsif roll < 65 then [:string, pick(BROKEN), pick(%w[UTF-8 BINARY])]
      elsif roll < 75 then [:array]
      elsif roll < 80 then [:stringio]
      elsif roll < 90 then [:log, *pick([[:self], [nil], [:self, 3], [:self, 9], [5]])]
      elsif roll < 94 then [:basic_log]
      else pick([nil, false, 5, :symbol, [:odd, :plain, nil], [:bare], 1.5])
      end
    end

    def ops(count) = Array.new(count) { op }

    def op
      roll = @random.rand(200)
      if @tame || roll < 184 || @reentrant then call
      elsif roll < 188 then private_call
      elsif roll < 191 then set
      elsif roll < 194 then [:def, which, pick(Hooks::SINGLETON.keys)]
      elsif roll < 197 then [:change, @random.rand(@builders), pick(Changes::ALL.keys)]
      else [:look, @random.rand(@builders)]
      end
    end

    def which = chance(15) ? :given : @random.rand(@builders)

    def call
      name, args, block = arguments
      block = self.block if block && @depth < 4
      unless @tame
        block = self.block if chance(1)
        args << value if chance(1)
        args.pop if chance(1)
      end
      keywords = chance(6) ? { pick(%i[a b href]) => value } : {}
      [:call, which, name, args, keywords, block || nil, chance(65)]
    end

    # The name of a method, what it takes, whether with a block.
    def arguments
      roll = @random.rand(@tame ? 76 : 100)
      if roll < 62 then element(name, [])
      elsif roll < 70 then element(:tag!, [chance(90) ? tag_name : value])
      elsif roll < 76 then [:text!, [chance(85) ? text : value]]
      elsif roll < 81 then [:<<, [chance(85) ? text : value]]
      elsif roll < 84 then [:comment!, [chance(85) ? text : value], chance(4)]
      elsif roll < 87 then [:cdata!, [chance(85) ? text : value], chance(4)]
      elsif roll < 88 then [:cdata_value!, [pick(TAGS), chance(85) ? text : value], chance(4)]
      elsif roll < 91 && !@reentrant then [:instruct!, instruction, chance(4)]
      elsif roll < 94 then [:declare!, declaration, chance(30)]
      elsif roll < 96 then [pick(%i[target! explicit_nil_handling? nil?]), []]
      elsif roll < 98 then [:method_missing, [pick([:a, :b, [:string, "s"], :x?])] + (chance(50) ? [text] : []), chance(20)]
      else [pick(BASIC), [pick([[:builder, 0], 1, nil])].first(@random.rand(2))]
      end
    end

    def name = !@tame && !@reentrant && @random.rand(1000) < 3 ? pick(DANGEROUS) : pick(TAGS)
    def tag_name = chance(50) ? pick(TAGS) : [:string, pick(NAMES), pick(%w[UTF-8 UTF-8 BINARY ISO-8859-1])]

    # namespace, text, attributes, nil, in any order; text seldom with a block.
    def element(name, args)
      block = @depth < 4 && chance(30)
      args << pick(%i[Envelope x]) if chance(8)
      args << value if chance(block ? 4 : 55) && !(block && @tame)
      args << attributes if chance(35)
      args << value if chance(5) && !(block && @tame)
      args << attributes if chance(4)
      args << nil if chance(4)
      [name, args, block]
    end

    def attributes
      pairs = Array.new(@random.rand(4)) { [@tame || chance(92) ? pick([:href, :id, :a, :b, [:string, "rel"], [:string, "xml:lang"]]) : value, attribute_value] }
      pairs.reject! { |name,| !name.is_a?(Symbol) && Array(name).first != :string } if (odd = !@tame && chance(10))
      odd ? [:hash, pairs, pick(%i[subclass identity default frozen])] : [:hash, pairs]
    end

    def attribute_value = chance(12) ? pick([:"&lt;", :plain, [:symbol, "é\""], [:symbol, "\n<"]]) : value

    def value
      return chance(90) ? text : pick([1, nil, 2.5, true, [:string, "é", "ISO-8859-1"]]) if @tame
      return text if chance(60)
      return pick([0, 1, 65, 300, -5, 2**70, 1.5, true, false, nil, :symbol, [:symbol, "é&"], 10.0e30]) if chance(60)

      case @random.rand(12)
      when 0 then [:array, 1, text, nil]
      when 1 then [:hash, [[:k, text]]]
      when 2 then [:odd, :to_s, chance(60) ? text : pick([nil, 65, :symbol, [:array], [:bare]])]
      when 3 then [:odd, :raise, nil]
      when 4 then chance(50) ? [:odd, :throw, nil] : [:odd, :plain, nil]
      when 5, 6 then reentrant
      when 7 then [:odd, :to_str, text]
      when 8 then chance(50) ? [:bare] : [:class]
      when 9 then [:builder, @random.rand(@builders)]
      when 10 then [:target, @random.rand(@builders)]
      else chance(50) ? [:range] : [:odd, :symbol_like, nil]
      end
    end

    # An object whose to_s writes to the builder that asks for it, or does something to its target. It does not change the target's
    # encoding, the declared one, variables or hooks: in the middle of an element those are beyond what the native part follows.
    def reentrant
      return [:odd, :plain, nil] if @depth > 2

      outer, @reentrant, @depth = @reentrant, true, @depth + 1
      made = [:odd, :ops, chance(50) ? ops(1 + @random.rand(2)) : [[:change, @random.rand(@builders), pick(Changes::ALL.keys - %i[binary latin freeze])]]]
      @reentrant = outer
      @depth -= 1
      made
    end

    def text(flags = nil, encodings = nil)
      encoding = if encodings then pick(encodings)
                 else @tame || chance(78) ? "UTF-8" : pick(ENCODINGS)
                 end
      whole = Array.new(@random.rand(4)) { pick(PIECES) }.join
      bytes = encoding == "UTF-8" || chance(15) ? whole.b : encoded(whole, encoding)
      bytes += pick(BROKEN) if chance(@tame ? 1 : 6)
      # Ruby 3.1 loses the bytes of some subclasses' strings in wide encodings when it copies them.
      flags ||= chance(80) || encoding.match?(/\AUTF-(16|32)/) ? [] : [pick(%i[frozen frozen subclass safe long shared singleton])]
      [:string, bytes, encoding, *flags]
    end

    def encoded(text, encoding)
      return text.b if encoding == "BINARY"

      text.encode(encoding, invalid: :replace, undef: :replace, replace: "").b
    rescue EncodingError
      text.delete("^\0-\x7F").b
    end

    def instruction
      case @random.rand(12)
      when 0..3 then []
      when 4..7 then [:xml, [:hash, [[:encoding, [:string, pick(DECLARED)]]] + (chance(20) ? [[:standalone, pick([nil, [:string, "yes"], true])]] : [])]]
      when 8 then [:xml, [:hash, [[:encoding, chance(50) ? :"ISO-8859-1" : pick([nil, 5, [:odd, :downcase, [:string, "utf-16be"]], text])]]]]
      when 9 then [:"xml-stylesheet", attributes]
      when 10 then [:xml, attributes]
      else [value, value].first(@random.rand(3))
      end
    end

    def declaration = [pick([:DOCTYPE, :ELEMENT, text, nil])] + Array.new(@random.rand(4)) { chance(75) ? pick([:html, text]) : value }

    def private_call
      name, count = pick(PRIVATE)
      args = case name
             when :_start_tag then [pick(TAGS), pick([nil, attributes]), pick([true, false])]
             when :_insert_attributes then [pick([nil, attributes])]
             when :_end_tag then [pick(TAGS)]
             else Array.new(count) { text }
             end
      [:private, which, name, args]
    end

    def set
      name, values = pick([[:@level, [0, 1, 5, -1, nil, 1.5]], [:@indent, [0, 2, nil, 3]], [:@quote, ["'", "", nil, "é", 5]], [:@encoding, DECLARED + [nil]],
                           [:@target, [[:string, "new"], [:array], nil, [:string, "é", "ISO-8859-1"]]], [:@explicit_nil_handling, [true, false, nil]],
                           [:@mine, [1]]])
      value = pick(values)
      [:set, which, name, value.is_a?(String) ? [:string, value] : value]
    end

    def block
      @depth += 1
      inner = ops(@random.rand(4))
      roll = @random.rand(100)
      parameters = pick([0, 0, 1, 1, 1, :rest])
      return [:literal, parameters, inner, nil] if @tame

      parameters = pick([2, :keys, :parts, :optional]) if chance(4)
      ending = chance(14) ? pick(%i[raise raise interrupt throw next break return loop]) : nil
      return [:literal, parameters, inner, ending] if roll < 70
      return [pick(%i[proc lambda]), parameters, inner, ending] if roll < 88
      return [:method, pick(%i[one none any]), inner, ending] if roll < 95

      [:symbol, pick([:a, :to_s, :text!, :upcase]), [], nil]
    ensure
      @depth -= 1
    end
  end
end
