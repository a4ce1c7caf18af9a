# frozen_string_literal: true

# Programs of transactions as data: made at random, and run by any PStore. What they do is told as text, so that two runs can be compared.
module PStorePrograms
  Point = Struct.new(:x, :y)
  class Thing
    attr_accessor :name, :parts

    def initialize(name, parts)
      @name = name
      @parts = parts
    end
  end

  NAMES = [:a, :b, "a", "b", "ä", "a".encode("UTF-16LE"), "ä".encode("ISO-8859-1"), 1, 2**80, nil, true, 1.5, 0.0, [1], { k: 1 }, "long" * 130, :"sym bol", 1..2].freeze
  STEPS = %i[get get get fetch fetch_default set set set delete keys key mutate mutate share nest abort commit fail].freeze

  module_function

  def make(random)
    Array.new(random.rand(1..6)) do
      { store: random.rand(2), read_only: random.rand(4).zero?,
        steps: Array.new(random.rand(0..8)) { [STEPS.sample(random: random), NAMES.sample(random: random), NAMES.sample(random: random), value(random)] } }
    end
  end

  def value(random, depth = 0)
    case random.rand(depth > 2 ? 5 : 9)
    when 0 then random.rand(5)
    when 1 then "text #{random.rand(5)}"
    when 2 then nil
    when 3 then 1.25
    when 4 then :symbol
    when 5 then Array.new(random.rand(3)) { value(random, depth + 1) }
    when 6 then { random.rand(3) => value(random, depth + 1) }
    when 7 then Point.new(value(random, depth + 1), 2)
    else Thing.new("thing", [value(random, depth + 1)])
    end
  end

  # What happened, as text.
  def run(program, stores)
    program.map do |transaction|
      store = stores[transaction[:store]]
      told = []
      outcome = begin
        store.transaction(transaction[:read_only]) { transaction[:steps].each { |step| told << tell { take(store, *step) } } && :done }
      rescue StandardError => e
        said(e)
      end
      told << outcome.inspect << state(store)
    end
  end

  def take(store, step, name, other, value)
    case step
    when :get then store[name]
    when :fetch then store.fetch(name)
    when :fetch_default then store.fetch(name, :none)
    # A copy, for the programs of both stores are the same objects.
    when :set then store[name] = Marshal.load(Marshal.dump(value))
    when :delete then store.delete(name)
    when :keys then store.roots
    when :key then store.root?(name)
    when :mutate then mutate(store[name])
    when :share then store[other] = [store[name], store[name]]
    when :nest then store.transaction { :nested }
    when :abort then store.abort
    when :commit then store.commit
    when :fail then raise "somebody fails"
    end
  end

  def mutate(object)
    case object
    # A frozen one is no object of its own to us (docs/pstore.md).
    when Array, String then object << +"more"
    when Hash then object[:more] = [object.size]
    when Point then object.y = [object.y]
    when Thing then object.parts << object.name
    end
  end

  # The store as a later transaction finds it: each root, and which parts of it are one object with parts of others.
  def state(store)
    store.transaction(true) do
      seen = {}.compare_by_identity
      store.roots.map { |name| [shown(name, seen), shown(store[name], seen)] }.inspect
    end
  end

  def shown(object, seen)
    case object
    when nil, true, false, Numeric, Symbol then return object.inspect
    end
    unless object.frozen?
      return "##{seen[object]}" if seen.key?(object)

      seen[object] = seen.size
    end
    case object
    when Array then "#{seen[object]}:[#{object.map { |element| shown(element, seen) }.join(", ")}]"
    when Hash then "#{seen[object]}:{#{object.map { |key, element| "#{shown(key, seen)}=>#{shown(element, seen)}" }.join(", ")}}"
    when Point then "#{seen[object]}:Point#{object.to_a.map { |element| shown(element, seen) }}"
    when Thing then "#{seen[object]}:Thing(#{shown(object.name, seen)}, #{shown(object.parts, seen)})"
    when String then "#{seen[object]}:#{object.encoding} #{object.b.inspect}"
    else object.inspect
    end
  end

  def tell
    shown(yield, {}.compare_by_identity)
  rescue StandardError => e
    raise if e.message == "somebody fails"

    said(e)
  end

  # Ruby 3.1's PStore says "root name" where newer ones say "key".
  def said(error)
    "#{error.class}: #{error.message.sub(/undefined (root name|key) [`'].*'/m, "undefined")}"
  end
end
