# frozen_string_literal: true

require "helper"
require "xml/support/pair"
require "xml/support/generator"

# Emit, which compiled templates call, beside the calls of the gem builder that a shape stands for: random shapes, values of every kind.
# SEED and COUNT as for the programs of calls.
class XMLEmitTest < Paceline::Test
  EMIT = Paceline::XML::Emit
  NAMES = %w[a entry soap:Body größe x-y].freeze
  ATTRIBUTES = %i[id href xml:lang b ü].freeze
  CONSTANTS = ["", "plain", "R & D <x>", "\"quoted\"\n", "\u00e9"].freeze

  # Writes the same by Emit and by Builder. What a leaf is to be: [:leaf, name, text, attributes], an element: [:element or :open, name,
  # attributes, children]; constants are [:constant, text], all else specifications of values (support/values.rb).
  class Run < XMLPrograms::Run
    def initialize(tree, options, classes, collector: nil)
      super({ builders: [[:markup, options, :none]], ops: [] }, classes, collector: collector)
      @tree = tree
    end

    def written(how)
      start
      begin
        @tree.each { |node| method(how).call(@builders[0], node) }
      rescue SystemStackError, StandardError, NoMemoryError => e
        @trace << raised(e)
      end
      finish
    end

    private

    # Inside and outside of what is disturbed as the programs of calls are.
    def undisturbed
      disturb(false)
      made = yield
      disturb(true)
      made
    end

    def values_of(attributes) = attributes.reject { |_, value| constant?(value) }.map { |_, value| make(value) }
    def constant?(value) = value.is_a?(Array) && value[0] == :constant

    def shape(name, attributes, text = :none)
      start = "<#{name}#{attributes.map { |key, value| " #{key}=\"#{constant?(value) ? escaped(value[1], true) : "\x01"}\"" }.join}"
      return "#{start}/>" if text == :none

      "#{start}>#{constant?(text) ? escaped(text[1], false) : "\x02"}</#{name}>"
    end

    def escaped(text, attribute)
      text = Paceline::XML::Characters.encode(text)
      attribute ? Paceline::XML::Characters.attribute(text) : text
    end

    def emit(xml, node)
      kind, name, *rest = node
      case kind
      when :text then EMIT.text(xml, escaped(name, false))
      when :leaf
        text, attributes = rest
        values = [*([make(text)] unless text == :none || constant?(text)), *values_of(attributes)]
        shape = shape(name, attributes, text)
        disturb(true)
        EMIT.leaf(xml, shape, *values)
        disturb(false)
      else
        attributes, children = rest
        shape = shape(name, attributes).sub("/>", ">")
        values = values_of(attributes)
        if kind == :element
          EMIT.element(xml, shape, *values) { children.each { |child| emit(xml, child) } }
        else
          EMIT.open(xml, shape, *values)
          begin
            children.each { |child| emit(xml, child) }
          ensure
            EMIT.close(xml, "</#{name}>")
          end
        end
      end
    ensure
      disturb(false)
    end

    def call_by_call(xml, node)
      kind, name, *rest = node
      case kind
      when :text then xml.text!(name)
      when :leaf
        text, attributes = rest
        text = [constant?(text) ? text[1] : make(text)] unless text == :none
        xml.tag!(name, *(text unless text == :none), *attributes_of(attributes))
      else
        attributes, children = rest
        xml.tag!(name, *attributes_of(attributes)) { children.each { |child| call_by_call(xml, child) } }
      end
    end

    def attributes_of(attributes)
      attributes.empty? ? [] : [attributes.to_h { |key, value| [key, constant?(value) ? value[1] : make(value)] }]
    end
  end

  class Trees < XMLPrograms::Generator
    def initialize(seed, random = Random.new(seed))
      super(seed, %i[markup])
      @random = random
      @builders = 1
      @depth = 0
      @tame = chance(50)
      @reentrant = true
      @copies = 0
    end

    def tree = Array.new(1 + @random.rand(4)) { node(0) }

    def options
      [{}, { indent: 2 }, { indent: 1, margin: 2 }, { quote: :single }, { explicit_nil_handling: true }][[0, 0, 0, 1, 1, 1, 2, 3, 4][@random.rand(9)]]
    end

    private

    # The target as text of itself doubles it: not too often.
    def value
      made = super
      made == [:target, 0] && (@copies += 1) > 3 ? nil : made
    end

    def node(depth)
      return [:text, pick(CONSTANTS)] if chance(10)

      attributes = ATTRIBUTES.sample(@random.rand(4), random: @random).map { |name| [name, chance(40) ? [:constant, pick(CONSTANTS)] : value] }
      # Templates that pass the builder on are not compiled so far.
      text = pick([:none, [:constant, pick(CONSTANTS)], value, value, value])
      return [:leaf, pick(NAMES), text == [:builder, 0] ? nil : text, attributes] if chance(60) || depth > 3

      [pick(%i[element open]), pick(NAMES), attributes, Array.new(@random.rand(4)) { node(depth + 1) }]
    end
  end

  def setup
    skip "the gem builder is not installed" unless XMLPrograms::Pair.stock
  end

  def compare(count, **run)
    seed = Integer(ENV.fetch("SEED", "1")) * 1_000_000_007
    count.times do |number|
      trees = Trees.new(seed + number)
      options = trees.options
      tree = trees.tree
      stock = Run.new(tree, options, XMLPrograms::Pair.stock).written(:call_by_call)
      ours = Run.new(tree, options, XMLPrograms::Pair.ours, **run).written(:emit)
      assert_equal stock, ours, [options, tree].inspect
    end
  end

  def test_random_shapes
    compare(Integer(ENV.fetch("COUNT", "4000")))
  end

  def test_under_a_collector_that_runs_at_every_allocation
    skip "only the native part can miss a reference" unless Paceline::XML::NATIVE
    compare(20, collector: :stress)
  end

  def test_while_objects_move
    return if apart

    skip "only the native part can miss a reference" unless Paceline::XML::NATIVE
    skip "this Ruby does not compact" unless GC.respond_to?(:compact)
    compare(5, collector: :compact)
  end

  # A builder that is not plain: with hooks, with singleton methods, after its variables were looked at.
  def test_builders_of_every_kind
    XMLPrograms::Hooks::ALL.each do |name, source|
      next if name.match?(/\A(tag|missing|cache|nested|text_call|target|a_tag|a_private|no_block)/)

      written = [[Paceline::XML::Builder, :emit], [::Builder::XmlMarkup, :call_by_call]].map do |klass, how|
        classes = { base: XMLPrograms::Pair.ours[:base], markup: Class.new(klass) { class_eval(source) } }
        tree = [[:open, "a", [[:id, 1], [:b, [:constant, "c&\n"]]], [[:leaf, "t", [:string, "x<e"], []], [:leaf, "n", nil, []], [:text, "y&"], [:leaf, "e", :none, []]]],
                [:element, "o:p", [], [[:leaf, "q", [:constant, "r"], [[:s, :"&t;"]]]]]]
        [{}, { indent: 2 }].map { |options| Run.new(tree, options, classes).written(how) }
      end
      assert_equal written.last, written.first, name
    end
  end
end
