# frozen_string_literal: true

require "stringio"
begin
  require "active_support"
  require "active_support/core_ext/string/output_safety"
rescue LoadError
  # Without Rails its strings are left out of the programs; `SafeBuffer` is then a plain subclass.
end

module XMLPrograms
  # Makes what a program (see program.rb) only names: strings of every encoding, objects that behave oddly, targets. Each run of a program
  # makes its own, so that two runs share no object.
  module Values
    class Text < String; end
    class Pairs < Hash; end

    SAFE = defined?(ActiveSupport::SafeBuffer) ? ActiveSupport::SafeBuffer : Class.new(String)

    # A target with `<<` and nothing else to it; what `<<` returns is given, and on which call it raises.
    class Log
      attr_reader :pieces

      def initialize(answer, raise_at = nil)
        @answer = answer
        @raise_at = raise_at
        @pieces = []
      end

      def <<(piece)
        @pieces << piece
        raise IOError, "target is full" if @pieces.size == @raise_at
        @answer == :self ? self : @answer
      end

      # What XmlEvents sends.
      def text(text) = @pieces << [:text, text]
      def start_tag(*args) = @pieces << [:start, *args]
      def end_tag(*args) = @pieces << [:end, *args]
    end

    # The same without any method of Object.
    class BasicLog < BasicObject
      def initialize = @pieces = []
      def pieces = @pieces

      def <<(piece)
        @pieces << piece
        self
      end
    end

    # A String that notices what is appended.
    class Noticing < String
      def <<(piece) = super("[#{piece.class}]").concat(piece)
    end

    # What text and values of attributes may be, beside Ruby's own classes. `run` is the run of the program, for those that call it.
    class Odd
      def initialize(run, kind, extra)
        @run = run
        @kind = kind
        @extra = extra
      end

      def to_s
        case @kind
        when :to_s then @run.make(@extra)
        when :raise then raise IOError, "no text"
        when :throw then throw :out, :thrown
        when :ops
          @run.ops(@extra)
          "done"
        else "#<Odd>"
        end
      end

      def kind_of?(klass) = @kind == :symbol_like || super
      def to_str = @kind == :to_str ? @run.make(@extra) : raise(NoMethodError, "to_str of Odd")
      def respond_to?(name, *) = name == :to_str ? @kind == :to_str : super
      def downcase = @kind == :downcase ? @run.make(@extra) : raise(NoMethodError, "downcase of Odd")
      def inspect = "#<Odd #{@kind}>"
    end

    class Bare < BasicObject; end

    # `spec` is a literal (nil, true, numbers, Symbols are themselves) or an Array that begins with what is to be made.
    def make(spec)
      return spec unless spec.is_a?(Array)

      kind, *rest = spec
      case kind
      when :string then string(*rest)
      when :symbol then string(*rest).to_sym
      when :hash then hash(*rest)
      when :array then rest.map { |value| make(value) }
      when :odd then Odd.new(self, *rest)
      when :bare then Bare.new
      when :builder then @builders[rest[0]]
      when :target then @targets[rest[0]]
      when :class then Odd
      when :range then 1..2
      else raise ArgumentError, "a program names #{spec.inspect}"
      end
    end

    private

    def string(bytes, encoding = "UTF-8", *flags)
      text = bytes.b.force_encoding(encoding)
      text *= 300 if flags.include?(:long)
      text = "#{text}#{"tail" * 20}".byteslice(0, text.bytesize) if flags.include?(:shared) && encoding == "UTF-8"
      text = Text.new(text) if flags.include?(:subclass)
      text = SAFE.new(text) if flags.include?(:safe)
      def text.to_s = "singleton" if flags.include?(:singleton)
      def text.<<(piece) = super("{").concat(piece) if flags.include?(:singleton_append)
      text = Noticing.new(text) if flags.include?(:noticing)
      text.freeze if flags.include?(:frozen)
      text
    end

    def hash(pairs, *flags)
      made = flags.include?(:subclass) ? Pairs.new : {}
      made.compare_by_identity if flags.include?(:identity)
      made.default = "default" if flags.include?(:default)
      pairs.each { |name, value| made[make(name)] = make(value) }
      made.freeze if flags.include?(:frozen)
      made
    end

    def target(spec)
      kind, *rest = spec
      case kind
      when :array then []
      when :stringio then StringIO.new(+"")
      when :log then Log.new(*rest)
      when :basic_log then BasicLog.new
      else make(spec)
      end
    end
  end
end
