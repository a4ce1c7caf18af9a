# frozen_string_literal: true

require "helper"
require "open3"
require "xml/support/pair"
require "xml/support/generator"

# The builder under a collector that runs at every allocation and moves what it can, and over many documents.
class XMLMemoryTest < Paceline::Test
  # More of them: COLLECTED=1000.
  COUNT = Integer(ENV.fetch("COLLECTED", "10"))

  # Programs whose outcome is known before the collector is let loose.
  def programs(count, seed)
    skip "the gem builder is not installed" unless XMLPrograms::Pair.stock
    skip "only the native part can miss a reference" unless Paceline::XML::NATIVE
    made = Array.new(count) { |number| XMLPrograms::Generator.new(seed + number, XMLPrograms::Pair.names).program }
    made.to_h { |program| [program, XMLPrograms::Run.new(program, XMLPrograms::Pair.stock).outcome] }
        .reject { |_, outcome| outcome == [:stack_overflow] }
  end

  def assert_outcomes(expected, collector)
    expected.each do |program, outcome|
      got = XMLPrograms::Run.new(program, XMLPrograms::Pair.ours, collector: collector).outcome
      assert_equal outcome, got, "PROGRAM='#{program.inspect}'"
    end
  end

  def stressed
    GC.stress = 1
    yield
  ensure
    GC.stress = false
  end

  def document(xml, records = 20)
    xml.instruct!
    xml.feed("xmlns" => "http://www.w3.org/2005/Atom", lang: :de) do
      xml.title("Feed & \u00e9")
      records.times do |n|
        xml.entry(id: n, "x" => "a\n\"b\" < \u65e5") do |entry|
          entry.title("record #{n} \u0080\xFF")
          entry.content("text " * (n * 40), type: "html")
          entry.comment!("c #{n}")
          entry.empty(nil, a: 1.5)
          entry.text!("caf\xE9".b)
        end
      end
    end
    xml.target!
  end

  def test_a_collector_that_runs_at_every_allocation
    assert_outcomes(programs(COUNT * 2, 900_000), :stress)
  end

  def test_a_document_under_such_a_collector
    skip "only the native part can miss a reference" unless Paceline::XML::NATIVE
    [{}, { indent: 2 }, { target: +"" }, { target: [] }, { quote: :single }].each do |options|
      expected = document(Paceline::XML::Builder.new(**options, target: options[:target] && options[:target].dup), 3)
      got = stressed { document(Paceline::XML::Builder.new(**options), 3) }
      assert_equal expected, got
    end
  end

  # Objects move between any two allocations.
  def test_a_collector_that_moves_objects
    return if apart

    skip "this Ruby does not compact" unless GC.respond_to?(:auto_compact=) && GC.respond_to?(:compact)
    before = GC.auto_compact
    GC.auto_compact = true
    assert_outcomes(programs(COUNT, 910_000), :compact)
  ensure
    GC.auto_compact = before unless before.nil?
  end

  def test_objects_move_inside_of_a_call
    return if apart

    skip "this Ruby does not compact" unless GC.respond_to?(:compact)
    moving = Object.new
    def moving.to_s
      GC.compact
      "moved"
    end
    expected = "<feed><a b=\"moved\" c=\"&lt;\">text</a><d>moved</d><e>\n</e></feed>"
    5.times do
      xml = Paceline::XML::Builder.new
      xml.feed do
        GC.compact
        xml.a("te" + "xt", b: moving, c: "<")
        xml.d(moving)
        xml.e do
          GC.compact
          xml.text!("\n")
        end
      end
      assert_equal expected, xml.target!
    end
  end

  # In a process of its own: it ends the process if a reference was missed. It wants twice the heap for a moment.
  def test_every_reference_follows
    skip "this Ruby does not compact" unless GC.respond_to?(:verify_compaction_references)
    code = <<~'RUBY'
      require "paceline/xml"
      builders = Array.new(50) { |n| Paceline::XML::Builder.new(target: +"t#{n}", explicit_nil_handling: n.odd? && +"yes #{n}") }
      builders.each_with_index { |xml, n| xml.a(n); xml.instruct!(:xml, encoding: "us-#{"ascii"}") if n % 3 == 0; xml.instance_eval { @level } if n % 5 == 0 }
      result = begin
        RUBY_VERSION < "3.2" ? GC.verify_compaction_references(toward: :empty, double_heap: true) : GC.verify_compaction_references(toward: :empty, expand_heap: true)
      rescue NotImplementedError
        true
      end
      builders.each { |xml| xml.b(nil) { |x| x.c("\u00e9") } }
      print result ? builders.map(&:target!).join.size : "not verified"
    RUBY
    out, err, status = Open3.capture3(RbConfig.ruby, "-I", File.expand_path("../../lib", __dir__), "-e", code)
    assert_predicate status, :success?, err
    assert_match(/\A\d+\z/, out)
  end

  # What many documents leave behind. The first ones may: methods, the allocator's pools.
  def assert_level(times, growth: 6000)
    skip "only the native part keeps memory of its own" unless Paceline::XML::NATIVE
    resident = -> { Integer(File.read("/proc/self/statm").split[1]) * 4 }
    # Garbage is collected as often in both parts, however much of it other tests have made Ruby wait for.
    part = ->(_) { (times / 4).times { yield } && GC.start }
    looks = ->(count) { Array.new(count) { |n| part.call(n); resident.call } }
    # What malloc holds at a moment is chance: of a leak the least is more than the most before.
    before = looks.call(4).max
    assert_operator looks.call(20).last(4).min - before, :<, growth, "kilobytes more after four times as many"
  end

  def test_documents_leave_nothing_behind
    skip "no /proc here" unless File.exist?("/proc/self/statm")
    assert_level(40) { document(Paceline::XML::Builder.new(indent: 2)) }
    assert_level(40) { document(Paceline::XML::Builder.new(target: [])) }
    assert_level(40) { document(Paceline::XML::Builder.new(target: "x" * 1000)) }
  end

  def test_documents_that_end_early_leave_nothing_behind
    skip "no /proc here" unless File.exist?("/proc/self/statm")
    odd = Object.new
    def odd.to_s = raise("no text")
    assert_level(1500) do
      xml = Paceline::XML::Builder.new
      begin
        xml.a { xml.b("x" * 5000) && xml.c("y", d: odd) }
      rescue RuntimeError
        xml.target!
      end
    end
    assert_level(1500) { catch(:out) { Paceline::XML::Builder.new.a { |xml| xml.b("x" * 5000) && throw(:out) } } }
  end

  # The fiber that holds one is never resumed.
  def test_builders_that_are_dropped_half_way_are_collected
    live = -> { ObjectSpace.each_object(Paceline::XML::Builder) { nil } }
    before = live.call
    300.times { Fiber.new { Paceline::XML::Builder.new.a { |xml| xml.b("x" * 5000) && Fiber.yield } }.resume }
    4.times { GC.start }
    assert_operator live.call - before, :<, 150
  end

  def test_names_from_data_leave_nothing_behind_but_their_symbols
    skip "no /proc here" unless File.exist?("/proc/self/statm")
    number = 0
    assert_level(2000, growth: 12_000) { Paceline::XML::Builder.new.tag!("name#{number += 1}", "x" * 500) }
  end

  def test_a_builder_keeps_its_target
    builders = Array.new(200) { |n| Paceline::XML::Builder.new(target: +"target #{n} #{"x" * 100}") }
    GC.start
    Array.new(10_000) { +"garbage" }
    GC.start
    builders.each_with_index { |xml, n| assert_equal "target #{n} #{"x" * 100}<a/>", xml.a }
  end
end
