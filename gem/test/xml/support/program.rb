# frozen_string_literal: true

require_relative "values"

module XMLPrograms
  # A *program* is data, so that it can be made at random, made smaller and printed:
  #
  #   { builders: [[class, {option => value}, target], ...], ops: [op, ...], cached: true or false, as XmlBase.cache_method_calls }
  #
  # An op is one of
  #   [:call, builder, name, args, keywords, block, rescued]   builder.name(*args, **keywords, &block)
  #   [:private, builder, name, args]                          the same past `private`, with no block
  #   [:set, builder, variable, value]                         an instance variable
  #   [:def, builder, hook]                                    a singleton method, of Hooks
  #   [:change, target, how]                                   something happens to the target behind the builder's back
  #   [:look, target]                                          what stands in the target now
  # where builder and target are indexes (:given is what the block got), and a block is [style, parameters, ops, ending].
  class Run
    include Values

    # What the program did: a list of what each call returned or raised, and of the targets, in terms that do not name the classes.
    attr_reader :trace

    # `classes` maps the names of classes that programs use to those to be tried. `collector` disturbs each call: :stress lets the collector
    # run at each allocation in it, :compact moves objects before it.
    def initialize(program, classes, collector: nil)
      @program = program
      @collector = collector
      @classes = classes
      @builders = []
      @targets = []
      @given = []
      @trace = []
      @calls = 0
    end

    def outcome
      base = @classes.fetch(:base)
      base.cache_method_calls = @program.fetch(:cached, true)
      ended = catch(:out) do
        start
        ops(@program[:ops])
        :ended
      end
      @trace << [:thrown, ended] unless ended == :ended
      finish
    rescue SystemStackError
      # How deep it came depends on the frames' size.
      [:stack_overflow]
    rescue Exception => e # rubocop:disable Lint/RescueException
      return [:stack_overflow] if e.cause.is_a?(SystemStackError)
      raise if e.instance_of?(SignalException)

      @trace << raised(e)
      finish
    ensure
      base.cache_method_calls = true
      GC.stress = false if @collector == :stress
    end

    def ops(list) = list.each { |op| step(op) }

    # Runs a block's ops and says how the block is to end.
    def body(ops, ending, given)
      disturb(false)
      @given.push(given)
      given.each { |value| @trace << [:given, describe(value)] }
      self.ops(ops)
      case ending
      when :raise then raise ArgumentError, "raised in a block"
      when :interrupt then raise Interrupt, "interrupted"
      when :throw then throw :out, :from_block
      else ending
      end
    ensure
      @given.pop
      disturb(true)
    end

    private

    def start
      @program[:builders].each do |klass, options, target|
        made = options.transform_values { |value| make(value) }
        made[:target] = target(target) unless target == :none
        builder = @classes.fetch(klass).new(made)
        @builders << builder
        @targets << builder.target!
      end
    end

    def finish = @trace.concat(@targets.map { |target| [:target, contents(target)] })

    def step(op)
      kind, which, *rest = op
      raise "this program does not end" if (@calls += 1) > 400

      case kind
      when :call then call(builder(which), *rest)
      when :private then @trace << describe(builder(which).__send__(rest[0], *rest[1].map { |value| make(value) }))
      when :set
        name = rest[0]
        value = make(rest[1])
        builder(which).instance_eval { ::Kernel.instance_method(:instance_variable_set).bind_call(self, name, value) }
      when :def then builder(which).instance_eval(Hooks::SINGLETON.fetch(rest[0]))
      when :change then Changes.apply(rest[0], @targets[which])
      when :look then @trace << [:look, contents(@targets[which])]
      else raise ArgumentError, "a program says #{op.inspect}"
      end
    end

    def builder(which) = which == :given ? @given.last&.first || @builders[0] : @builders[which]

    def call(builder, name, args, keywords, block, rescued)
      args = args.map { |value| make(value) }
      keywords = keywords.transform_values { |value| make(value) }
      disturb(true)
      returned = Calls.dispatch(self, builder, name, args, keywords, block)
      disturb(false)
      @trace << describe(returned)
    rescue SystemStackError
      raise
    rescue Exception => e # rubocop:disable Lint/RescueException
      disturb(false)
      raise if !rescued || e.cause.is_a?(SystemStackError) || e.instance_of?(SignalException)

      @trace << raised(e)
    end

    # Minor collections: a major one at each allocation takes minutes.
    def disturb(inside)
      GC.stress = inside && 1 if @collector == :stress
      GC.compact if inside && @collector == :compact
    end

    CLASS = Kernel.instance_method(:class)
    private_constant :CLASS

    def raised(error)
      [:raised, class_name(error.class), message(error.message), error.cause && class_name(error.cause.class)]
    end

    # Without addresses, without what error_highlight and did_you_mean add.
    def message(text)
      text = text.dup.force_encoding("UTF-8").scrub.gsub(/0x\h{8,}/i, "0x").sub(/\n(\n|Did you mean).*/m, "")
      text.gsub("Paceline::XML::Builder", "Builder::XmlMarkup").gsub("Paceline::XML::Events", "Builder::XmlEvents")
    end

    def class_name(klass) = klass.name.to_s.sub("Paceline::XML::", "Builder::")

    # What an object is, in terms that two runs can share: the builder and target by their number, a String by its bytes.
    def describe(object)
      number = @targets.index { |target| target.equal?(object) } and return [:target, number]
      number = @builders.index { |builder| builder.equal?(object) } and return [:builder, number]
      case object
      when String then describe_string(object)
      when Symbol then object.name.b.include?("0x") ? [:symbol, message(object.name)] : object
      when nil, true, false, Numeric then object
      when Array then object.map { |value| describe(value) }
      when Hash then [:hash, object.map { |pair| describe(pair) }]
      else [:other, message(CLASS.bind_call(object).name.to_s)]
      end
    end

    def describe_string(text) = [CLASS.bind_call(text).name, text.encoding.name, plain(text), text.frozen?]

    # Kernel#to_s tells class and address.
    def plain(text)
      text = text.b
      text = text.gsub(/0x\h{16}/i, "0x") if text.include?("0")
      text = text.gsub(/Paceline::XML::Builder|Builder::XmlMarkup/i, "markup").gsub(/Paceline::XML::Events|Builder::XmlEvents/i, "events") if text.match?(/::xml/i)
      text
    end

    def contents(target)
      case target
      when String then describe_string(target)
      when Array then target.map { |value| describe(value) }
      when StringIO then [target.string.encoding.name, plain(target.string)]
      when Log, BasicLog then target.pieces.map { |value| describe(value) }
      else describe(target)
      end
    end
  end

  # Real call sites for every way to call a builder, made when first asked for.
  module Calls
    PARAMETERS = { 0 => ["", "[]"], 1 => ["|b|", "[b]"], 2 => ["|b, c|", "[b, c]"], rest: ["|*b|", "b"], keys: ["|b, k: 1|", "[b, k]"],
                   parts: ["|(b, c), d|", "[b, c, d]"], optional: ["|b = 7, c = 8|", "[b, c]"] }.freeze
    ENDINGS = <<~RUBY
      case run.body(ops, ending, GIVEN)
      when :break then break :broken
      when :next then next :skipped
      when :return then return :returned
      when :loop then [1].each { break }
      else :value
      end
    RUBY

    # Blocks given as methods.
    class Receiver
      def initialize(run, ops, ending)
        @run = run
        @ops = ops
        @ending = ending
      end

      def one(builder) = @run.body(@ops, @ending, [builder])
      def none = @run.body(@ops, @ending, [])
      def any(*given) = @run.body(@ops, @ending, given)
    end

    class << self
      def dispatch(run, builder, name, args, keywords, block)
        return site(name, nil).call(builder, args, keywords, nil) unless block

        style, parameters, ops, ending = block
        case style
        when :literal then site(name, parameters).call(builder, args, keywords, run, ops, ending)
        when :symbol then site(name, nil).call(builder, args, keywords, parameters)
        when :method then site(name, nil).call(builder, args, keywords, Receiver.new(run, ops, ending).method(parameters))
        else site(name, nil).call(builder, args, keywords, closure(style, parameters).call(run, ops, ending))
        end
      end

      private

      def site(name, parameters)
        (@sites ||= {})[[name, parameters]] ||= begin
          method = name.match?(/\A[[:alpha:]_][[:alnum:]_]*[!?]?\z/) ? "builder.#{name}(*args" : "builder.__send__(#{name.to_sym.inspect}, *args"
          if parameters
            list, given = PARAMETERS.fetch(parameters)
            eval("lambda { |builder, args, keywords, run, ops, ending| #{method}, **keywords) { #{list} #{ENDINGS.sub("GIVEN", given)} } }")
          else
            eval("lambda { |builder, args, keywords, block| #{method}, **keywords, &block) }")
          end
        end
      end

      def closure(style, parameters)
        (@closures ||= {})[[style, parameters]] ||= begin
          list, given = PARAMETERS.fetch(parameters)
          eval("lambda { |run, ops, ending| #{style} { #{list} #{ENDINGS.sub("GIVEN", given)} } }")
        end
      end
    end
  end

  # What may happen to a target that is a String while a builder writes to it.
  module Changes
    ALL = {
      clear: ->(target) { target.clear },
      freeze: ->(target) { target.freeze },
      binary: ->(target) { target.force_encoding("BINARY") },
      latin: ->(target) { target.force_encoding("ISO-8859-1") },
      broken: ->(target) { target.concat("\xE2\x82".dup.force_encoding(target.encoding)) },
      replace: ->(target) { target.replace("#{target}#{"r" * 100}") },
      # Anew, for slice! leaves it open whether the rest is ASCII.
      cut: ->(target) { target.replace((target[0...-2] || "").b.force_encoding(target.encoding)) },
      share: ->(target) { target.dup.freeze },
      grow: ->(target) { target << ("g" * 10_000) },
    }.freeze

    def self.apply(name, target)
      ALL.fetch(name).call(target) if String === target && !target.frozen? && target.encoding.ascii_compatible?
    end
  end
end
