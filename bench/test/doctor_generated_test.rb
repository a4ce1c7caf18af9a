# frozen_string_literal: true

require_relative "../doctor/generated/run"
require "action_view"
require "erb"
require "minitest/autorun"

# That generated applications are Ruby, always the same for a seed, and differ from their twins in the cures alone; and how they are scored.
class DoctorGeneratedTest < Minitest::Test
  include Bench

  SEEDS = (1..100)

  def test_there_are_kinds_enough_and_each_is_woven_into_each_of_its_bases
    assert_operator Generated::Kinds::ALL.size, :>=, 25
    Generated::Kinds::EVERY.each do |base|
      woven = (1..200).flat_map { |seed| Generated::Application.new(seed, base).faults.map { |fault| fault.kind.name } }
      assert_empty Generated::Kinds.of(base).map(&:name) - woven, base
    end
  end

  def test_a_seed_gives_the_same_application_each_time
    SEEDS.each { |seed| assert_equal app(seed).files("fault"), app(seed).files("fault"), seed }
    refute_equal app(1).files("fault"), app(2).files("fault")
  end

  def test_every_file_is_ruby
    SEEDS.each do |seed|
      DoctorFault::VARIANTS.each do |variant|
        app(seed).files(variant).each { |path, text| (source = ruby(path, text)) && compiled(source, "seed #{seed}: #{path}") }
      end
    end
  end

  # Of the same seed only the database differs.
  def test_records_can_be_in_postgresql
    SEEDS.select { |seed| app(seed).base != "rack" }.each do |seed|
      one = Generated::Application.new(seed, database: "postgresql")
      assert_includes one.title, " on postgresql"
      assert_equal app(seed).faults.map { |fault| [fault.kind.name, fault.path] }, one.faults.map { |fault| [fault.kind.name, fault.path] }
      files, others = one.files("fault"), app(seed).files("fault")
      assert_empty files.keys.reject { |path| files[path] == others[path] } - %w[db/prepare.rb db/structure.sql config/database.yml app.rb], seed
      compiled(files.fetch("db/prepare.rb"), "seed #{seed}")
    end
  end

  def test_some_applications_have_sessions
    with, without = SEEDS.partition { |seed| app(seed).sessions? }
    [with, without].each { |seeds| assert_operator seeds.size, :>, 25 }
    assert_equal [nil, "read", "write"], with.flat_map { |seed| app(seed).pages.map(&:session) }.uniq.sort_by(&:to_s)
  end

  # Each file that differs belongs to one fault, and the others are the same in both.
  def test_fault_and_twin_differ_in_the_cures_alone
    SEEDS.each do |seed|
      fault, clean = DoctorFault::VARIANTS.map { |variant| app(seed).files(variant) }
      assert_equal fault.keys, clean.keys, seed
      changed = fault.keys.reject { |path| fault[path] == clean[path] }
      assert_operator changed.size, :<=, app(seed).faults.size, "seed #{seed}: #{changed}"
      assert_operator changed.size, :>=, 1, seed
    end
  end

  def test_right_places_are_lines_of_the_faulty_application
    SEEDS.each do |seed|
      one = app(seed)
      one.faults.each do |fault|
        assert one.places[fault.number].any? || fault.kind.anywhere, "seed #{seed}: #{fault.kind.name}"
        one.places[fault.number].each { |place| assert one.files("fault").fetch(place[/.*(?=:)/]).lines[place[/\d+\z/].to_i - 1], place }
      end
      refute one.files("fault").values.any? { |text| text.match?(Generated::Application::MARK) }, "marks are gone"
    end
  end

  def test_pages_are_ten_with_paths_of_their_own
    SEEDS.each { |seed| assert_equal Generated::Application::PAGES, app(seed).paths.uniq.size, seed }
  end

  def test_the_largest_fault_must_come_first
    proof, small, large = proof_of_two
    assert_equal [true, true], judged(proof, [said(proof, large), said(proof, small)])
    assert_equal [false, false], judged(proof, [said(proof, small), said(proof, large)])
    assert_equal [true, false], judged(proof, [said(proof, large).merge("at" => "app/other.rb:1")]), "another line"
    proof.gains[small.number].fault = 19.0
    assert_equal [true, true], judged(proof, [said(proof, small)]), "both are about as large"
  end

  # One of them was slower in one round by chance: then nobody can tell which is larger. In all three rounds it can.
  def test_of_two_faults_that_cannot_be_told_apart_each_may_come_first
    proof, small, large = proof_of_two
    rounds = ->(*saved) { saved.map { |ms| DoctorGain.new(unit: "ms", fault: ms + 2.0, clean: 2.0) } }
    proof.rounds = { small.number => rounds[9.0, 16.0, 5.0], large.number => rounds[25.0, 15.0, 20.0] }
    assert_equal [true, true], judged(proof, [said(proof, small), said(proof, large)])
    assert proof.right_by_error?
    assert_equal [true, true], judged(proof, [said(proof, large), said(proof, small)])
    refute proof.right_by_error?
    proof.rounds[small.number] = rounds[9.0, 14.0, 7.0]
    assert_equal [false, false], judged(proof, [said(proof, small), said(proof, large)])
    refute proof.right_by_error?
  end

  # By one of ten pages the other one is twice as large.
  def test_every_page_pays_for_a_middleware
    proof, middleware, other = proof_of_two(&:middleware?)
    assert_equal [true, true], judged(proof, [said(proof, middleware), said(proof, other)])
    refute judged(proof, [said(proof, other), said(proof, middleware)]).last
  end

  # What a middleware takes is a small part of another page that is slow itself.
  def test_a_prediction_is_held_to_the_page_that_was_measured
    proof, middleware, = proof_of_two(&:middleware?)
    gains = [["GET /elsewhere", 10.0], ["GET #{middleware.path}", 16.0]].map { |route, us| { "route" => route, "gain_us" => us, "of_us" => 20.0, "bound" => "at_most" } }
    judged(proof, [said(proof, middleware).merge("gains" => gains)])
    assert_equal true, proof.holds?(middleware)
    judged(proof, [said(proof, middleware).merge("gains" => gains.take(1))])
    assert_nil proof.holds?(middleware)
  end

  # Both are on all pages.
  def test_of_two_middlewares_each_has_its_own_advice
    one = (1..3000).lazy.map { |seed| Generated::Application.new(seed, "rack") }.find { |app| app.faults.count(&:middleware?) > 1 }
    proof = Generated::Proof.new(app: one, gains: {}, failures: {})
    middlewares = one.faults.select(&:middleware?).first(2)
    judged(proof, middlewares.reverse.map { |fault| said(proof, fault).merge("kind" => "slow_middleware", "sentence" => "the middleware #{fault.name} takes 9 ms", "at" => "") })
    assert_equal [2, 1], middlewares.map { |fault| proof.of(fault).number }
    judged(proof, middlewares.reverse.map { |fault| said(proof, fault) })
    assert_equal [2, 1], middlewares.map { |fault| proof.of(fault).number }
  end

  # By the template as Rails reads it: it drops the newline behind a line that has one tag alone.
  def test_a_partial_that_is_kept_writes_the_same
    weave = Generated::Kinds::ALL.fetch("costly_partial").make.call(Generated::Pick.new(Random.new(7)), app(1).shop)
    kept, written = weave.partials.values_at("clean", "fault").map do |text|
      ActionView::Template::Handlers::ERB::Erubi.new(text.gsub("<%#!%>", ""), trim: true, escape: false).src.scan(/safe_append='(.*?)'/m).join
    end
    assert_equal written, kept
    assert_includes kept, "<p>"
  end

  # One cure alone: each file is as in the faulty or in the clean application, and only what belongs to the other faults is as in the faulty one.
  def test_each_fault_can_be_cured_alone
    several = SEEDS.map { |seed| app(seed) }.select { |one| one.faults.size > 1 }
    several.each do |one|
      fault, clean = DoctorFault::VARIANTS.map { |variant| one.files(variant) }
      changed = one.faults.map do |cured|
        files = one.files("cured-#{cured.number}")
        files.reject { |path, text| text == fault[path] }.each_key.to_a
      end
      assert changed.none?(&:empty?), one.title
      assert_equal fault.keys.reject { |path| fault[path] == clean[path] }.sort, changed.flatten.uniq.sort, one.title
    end
  end

  def test_a_cache_for_a_page_that_greets_its_visitor_is_harmful
    proof, _, large = proof_of_two
    judged(proof, [said(proof, large)])
    assert proof.harmless?
    judged(proof, [said(proof, large).merge("kind" => "cache_headers")])
    refute proof.harmless?
    judged(proof, [said(proof, large).merge("fix" => { "line" => "Nothing.includes(:here)" })])
    assert_equal 1, proof.harmful.size
  end

  def test_seeds_are_a_range_or_one
    assert_equal [7..9, 7..7], ["7..9", "7"].map { |text| Generated::Run.seeds(text) }
    assert_raises(ArgumentError) { Generated::Run.seeds("x") }
  end

  private

  def app(seed) = (@apps ||= {})[seed] ||= Generated::Application.new(seed)

  def ruby(path, text)
    return text if path.end_with?(".rb", ".ru")

    "def page\n#{ERB.new(text).src.sub(/\A#coding.*\n/, "")}\nend\n" if path.end_with?(".erb")
  end

  def compiled(source, what)
    RubyVM::InstructionSequence.compile(source)
  rescue SyntaxError => e
    flunk "#{what}: #{e.message[0, 300]}"
  end

  # Of two faults of methods; the second one is twice as large. The block: whether a fault may be the first one; else it is no middleware.
  def proof_of_two(&first)
    first ||= ->(fault) { !fault.middleware? }
    one = (1..400).lazy.map { |seed| app(seed) }.find do |app|
      app.faults.size == 2 && app.faults.all? { |fault| fault.method? && !fault.kind.anywhere } && first[app.faults.first] && !app.faults.last.middleware?
    end
    small, large = one.faults
    gains = { small.number => DoctorGain.new(unit: "ms", fault: 12.0, clean: 2.0), large.number => DoctorGain.new(unit: "ms", fault: 22.0, clean: 2.0) }
    [Generated::Proof.new(app: one, gains: gains, failures: {}), small, large]
  end

  def said(proof, fault)
    { "kind" => fault.kind.says.first, "routes" => ["GET #{fault.path}"], "fix" => { "line" => "+" }, "at" => proof.app.places[fault.number].first, "gains" => [{ "gain_us" => 10, "of_us" => 20, "bound" => "measured" }] }
  end

  def judged(proof, advice)
    proof.of_fault, proof.of_twin = DoctorSays.new("advice" => advice), DoctorSays.new("advice" => [])
    [proof.right_first?, proof.right_place?]
  end
end
