# frozen_string_literal: true

require_relative "../doctor/live"
require_relative "../doctor/real"
require_relative "../doctor/report"
require_relative "../doctor/trial"
require "minitest/autorun"
require "tmpdir"

# The sums of `bin/bench doctor`, how it judges advice, and that its applications differ from their clean twins in the cure alone.
class DoctorBenchTest < Minitest::Test
  include Bench

  # Of a thread that only looks after others it delays nobody.
  def test_what_waits_for_a_processor_are_threads_with_something_to_do
    before = { "a" => [5_000_000, 1_000_000], "b" => [0, 0] }
    after = { "a" => [105_000_000, 31_000_000], "b" => [1_000_000, 70_000_000], "c" => [50_000_000, 2_000_000] }
    assert_in_delta 32.0, DoctorWaiting.between(before, after)
    assert_in_delta 0.0, DoctorWaiting.between(after, after)
    assert_in_delta 0.0, DoctorWaiting.begin([]).ms
    assert_operator DoctorWaiting.begin([Process.pid]).tap { 1000.times { "x" * 9 } }.ms, :>=, 0
  end

  def test_a_gain_is_the_part_that_the_cure_takes_away
    gain = DoctorGain.new(unit: "ms", fault: 20.0, clean: 5)
    assert_equal [0.75, 15.0, true], [gain.share, gain.saved, gain.fault?]
    assert_equal [0.0, false], DoctorGain.new(unit: "bytes", fault: 0, clean: 0).then { |none| [none.share, none.fault?] }
    refute_predicate DoctorGain.new(unit: "ms", fault: 100, clean: 95), :fault?
  end

  def test_a_prediction_holds_within_15_percent_of_the_gain
    assert_in_delta 0.1, DoctorSums.miss(0.55, 0.5)
    assert_in_delta(-0.2, DoctorSums.miss(0.4, 0.5))
    assert_equal [true, true, false, false], [0.57, 0.43, 0.58, 0.42].map { |predicted| DoctorSums.holds?(predicted, 0.5) }
    assert_nil DoctorSums.holds?(nil, 0.5)
    assert_nil DoctorSums.miss(0.5, 0), "there is no part of nothing"
  end

  def test_a_bound_holds_on_its_own_side
    assert_equal [true, true, false], [0.9, 0.5, 0.4].map { |predicted| DoctorSums.holds?(predicted, 0.5, "at_most") }
    assert_equal [false, true, true], [0.9, 0.5, 0.4].map { |predicted| DoctorSums.holds?(predicted, 0.5, "at_least") }
  end

  def test_what_was_not_tried_is_not_counted
    assert_equal "2 of 3", DoctorSums.count([true, nil, false, true, nil])
  end

  # A browser's second visit asks for what it could not keep.
  def test_files_of_a_page_and_what_is_fresh
    page = '<link rel="stylesheet" href="/a.css"><script src="/b.js"></script><a href="/books">x</a><script src="/b.js"></script>'
    assert_equal ["/a.css", "/b.js"], DoctorVisit.named(page)
    assert DoctorVisit.fresh?("public, max-age=31536000, immutable")
    [nil, "no-cache", "max-age=0, must-revalidate", "max-age=60, no-cache"].each { |field| refute DoctorVisit.fresh?(field), field.inspect }
  end

  def test_advice_is_about_a_path_by_its_route
    advice = ->(*routes) { DoctorAdvice.new(kind: "slow_partial", routes: routes) }
    assert advice["GET /books/*"].about?("/books/3")
    assert advice["GET /shelf", "GET /plan"].about?("/plan")
    assert advice[].about?("/plan"), "no route is every route"
    refute advice["GET /shelf"].about?("/plan")
  end

  def test_the_right_cause_must_come_first
    right, wrong = %w[repeated_queries slow_partial].map { |kind| said(kind, "GET /shelf") }
    assert_equal [true, true, []], judged([right]).then { |proof| [proof.named_first?, proof.named?, proof.others] }
    assert_equal [false, true, ["slow_partial"]], judged([wrong, right]).then { |proof| [proof.named_first?, proof.named?, proof.others.map(&:kind)] }
    assert_equal [false, false], judged([said("repeated_queries", "GET /")]).then { |proof| [proof.named_first?, proof.named?] }
    refute_predicate judged([]), :named_first?
  end

  def test_parts_that_were_not_run_are_not_judged
    proof = DoctorProof.new(fault: fault("n_plus_one"), failures: {})
    assert_equal [nil] * 4, [proof.named_first?, proof.twin_clean?, proof.holds?, proof.unchanged]
  end

  def test_prediction_and_gain_of_a_proof
    proof = judged([said("repeated_queries", "GET /shelf", gain_us: 6000, of_us: 10_000, bound: "at_most")])
    proof.gain = DoctorGain.new(unit: "ms", fault: 10, clean: 5)
    assert_in_delta 0.2, proof.miss
    assert proof.holds?, "it said at most"
  end

  # Of an allocator the memory, of compression the bytes of a page.
  def test_predictions_that_are_no_time
    allocator = said("allocator", "GET /list").merge("gains" => [], "memory" => -20, "load" => { "control" => { "memory" => 80 } })
    pages = said("uncompressed_pages", "GET /prices", gain_us: 900, of_us: 0, bound: "computed").merge("compression" => [{ "before" => 1000, "after" => 100 }])
    figures = { "many_arenas" => allocator, "plain_type" => pages }.map do |name, advice|
      proof = DoctorProof.new(fault: fault(name), of_fault: DoctorSays.new("advice" => [advice]), failures: {})
      [proof.named_first?, proof.predicted, proof.predicted_saved, proof.bound]
    end
    assert_equal [[true, 0.25, 20, "measured"], [true, 0.9, 900, "measured"]], figures
  end

  def test_what_was_left_out_and_looked_at_is_read
    said = DoctorSays.new("advice" => [], "others" => [{ "kind" => "yjit", "standing" => "not_worth", "why" => "-3 %, noise" }],
                          "sample" => { "left_out" => [{ "request" => "GET /x", "why" => "writes", "what" => "INSERT INTO visits", "at" => "app/x.rb:4" }] })
    assert_equal [["yjit not_worth -3 %, noise"], ["GET /x writes INSERT INTO visits"]], [said.others, said.left_out]
  end

  def test_a_report_says_what_is_missing
    proof = judged([said("slow_partial", "GET /plan")])
    proof.failures["applied"] = "/shelf: 10 and 12 bytes, and not the same\nmore"
    text = report(proofs: [proof])
    assert_includes text, "NO: slow_partial GET /plan"
    assert_includes text, "n_plus_one, applied: /shelf: 10 and 12 bytes, and not the same\n"
    assert_includes text, "Named first (wanted: 9 of 10): 0 of 1"
    assert_includes text, "live p99 (at most 1.1): not measured"
  end

  # Each step of `paceline bench --json` stands for the answers since the one before.
  def test_latencies_of_several_runs_are_one_distribution
    quick, slow = [1.0, 50.0].map { |ms| latencies(100, [0.0, ms], [50.0, ms], [100.0, ms * 2]) }
    assert_equal [100, 1.0, 2.0], [quick.count, quick.percentile(50), quick.percentile(99)]
    both = DoctorLatencies.of_all([quick, slow])
    assert_equal [200, 2.0, 50.0, 100.0], [both.count, both.percentile(50), both.percentile(75), both.percentile(99)]
    assert_nil DoctorLatencies.new([]).percentile(50)
  end

  # The first round lies between 10 and 30 ms, the second one between 30 and 20.
  def test_each_round_is_compared_with_the_quiet_times_beside_it
    row = live_row([10, 30, 20], [22, 35])
    row.ratios.zip([1.1, 1.4]) { |found, expected| assert_in_delta expected, found }
    assert_in_delta 1.25, row.ratio
    row.nulls.zip([3.0, 1.5]) { |found, expected| assert_in_delta expected, found }
    assert_in_delta 20.0, row.percentile(:quiet, 99)
    assert_in_delta 28.5, row.percentile(:during, 99)
    assert_equal [3.0, 300, 200], [row.median(:quiet, :cpu), row.count(:quiet), row.count(:during)]
    row.during.each { |load| load.failures = { "status 503" => 1 } }
    assert_equal({ "status 503" => 2 }, row.failures)
    assert_equal 1, live_row([10, 10], [11, 11]).ratios.size, "a round without a quiet time after it is not compared"
  end

  def test_the_report_has_what_visitors_noticed
    row = live_row([10, 10], [11])
    real = DoctorRealProof.new(app: DoctorReal::ALL[0], said: DoctorSays.new("advice" => [said("cold_connections", "GET /provision")]), unchanged: true, failures: {})
    text = report(live: [row], real: [real])
    assert_includes text, "live p99 (at most 1.1): 1.10 at 10/s"
    assert_match(/^\| brewery .* cold_connections GET \/provision .* unchanged .* 1.10 at 10\/s \|$/, text)
    row.rounds[0].failure = "paceline doctor: ended after 150 s"
    assert_includes report(live: [row]), "1.10 at 10/s (no whole run)"
    assert_match(/^\| +10 \| +200 \| +100 \|.* 1.10 \(1.10\) \| +1.00 \(1.00\) \|/, text)
    row.rounds[0].during.failures = { "status 503" => 2 }
    assert_match(/no figure.*live, 10\/s: 2 x status 503/m, report(live: [row]))
  end

  def test_whole_applications_are_measured_in_rounds
    said = DoctorSays.new("advice" => [said("builder_xml", "GET /feed")])
    gains = [[40, 36], [44, 38], [36, 34]].map { |fault, clean| DoctorGain.new(unit: "ms", fault: fault, clean: clean) }
    real = DoctorRealProof.new(app: DoctorReal::ALL[0], said: said, applied: said.advice.first, gains: gains, unchanged: true, failures: {})
    assert_equal DoctorGain.new(unit: "ms", fault: 40.0, clean: 36.0), real.gain
    assert_includes report(real: [real]), "40.0 ms to 36.0 ms (3 rounds: 6 to 14 %)"
  end

  def test_the_load_has_its_rate_in_each_second
    lines = DoctorLive.log(10, 3).lines
    assert_equal [10, 10, 10], lines.group_by { |line| line[/\[(.*?)\]/, 1] }.values.map(&:size)
    assert_equal lines, DoctorLive.log(10, 3).lines
  end

  # A cure that finds nothing to replace would measure nothing.
  def test_cures_of_whole_applications_fit_their_sources
    cures = DoctorReal::ALL.flat_map { |app| app.cures.values.map { |file, *cure| [File.join(app.sources, file), *cure] } }.select { |path,| File.exist?(path) }
    cures.each do |path, before, after|
      source = File.read(path)
      cured = source.sub(before) { after }
      RubyVM::InstructionSequence.compile(cured)
      refute_equal source, cured
    end
    refute_empty cures
  end

  # `paceline doctor apply` writes into a git tree without changes only, and an application's start writes its log.
  def test_the_git_tree_of_a_whole_application_stays_clean_when_it_writes_its_log
    Dir.mktmpdir do |work|
      folder = File.join(work, "redmine")
      { "Gemfile" => "", "config/database.yml" => "database: #{folder}/db\n", "log/production.log" => "a\n", "db/production.sqlite3" => "" }.each do |name, text|
        FileUtils.mkdir_p(File.dirname(File.join(folder, name)))
        File.write(File.join(folder, name), text)
      end
      copy = DoctorReal.new(DoctorReal::ALL[1], work, {}, seconds: 1).send(:copied, folder, "cured")
      File.write(File.join(copy, "log/production.log"), "b\n", mode: "a")
      assert_empty IO.popen(%w[git status --porcelain], chdir: copy, &:read)
      assert_equal "database: #{copy}/db\n", File.read(File.join(copy, "config/database.yml"))
      File.write(File.join(copy, "Gemfile"), "# changed\n")
      refute_empty IO.popen(%w[git status --porcelain], chdir: copy, &:read)
    end
  end

  def test_there_are_at_least_twenty_applications
    assert_operator DoctorFault.all.size, :>=, 20
    assert_raises(ArgumentError) { DoctorFault.named(%w[nothing]) }
  end

  def test_each_application_says_what_is_expected
    DoctorFault.all.each do |fault|
      assert_includes fault.paths, fault.path, fault.name
      assert_includes DoctorFault::MEASURES, fault.measure, fault.name
      assert_includes DoctorFault::BASES.keys, fault.base, fault.name
      assert_match(/\A[a-z_]+\z/, fault.kind)
    end
  end

  # Where it is cured is a file of both; only the cured one has the line.
  def test_fault_and_twin_differ_in_the_cure
    DoctorFault.all.each do |fault|
      file, line = fault.cure.values_at("file", "line")
      faulty, clean = DoctorFault::VARIANTS.map { |variant| File.readlines(fault.sources(variant).reverse.find { |_, relative| relative == file }.first).map(&:strip) }
      faulty, clean, line = clean, faulty, line.delete_prefix("-") if line.start_with?("-")
      assert_includes clean, line, fault.name
      refute_includes faulty, line, fault.name
    end
  end

  # No file of the base or of the application itself is another in the twin but those in `fault` and `clean`.
  def test_twins_have_the_same_files_but_for_what_only_the_cure_needs
    DoctorFault.all.each do |fault|
      faulty, clean = DoctorFault::VARIANTS.map { |variant| fault.sources(variant).map(&:last).uniq }
      assert_empty faulty - clean, fault.name
      assert_empty (clean - faulty) - ["db/after.rb"], fault.name
    end
  end

  def test_every_file_is_ruby
    sources = Dir[File.join(DoctorFault::HOME, "**/*.{rb,ru,builder}")]
    sources.each { |path| RubyVM::InstructionSequence.compile_file(path) }
    refute_empty sources
  end

  def test_a_folder_is_laid_with_the_same_bytes_each_time
    Dir.mktmpdir do |work|
      folders = %w[a b].map { |name| fault("slow_partial").lay("fault", File.join(work, name)) }
      assert_equal(*folders.map { |folder| DoctorFault.checksum(folder) })
      assert_path_exists File.join(folders[0], "db/production.sqlite3")
      FileUtils.mkdir_p(File.join(folders[0], "log"))
      File.write(File.join(folders[0], "log/production.log"), "x")
      assert_equal(*folders.map { |folder| DoctorFault.checksum(folder) }, "logs may be written")
      File.open(File.join(folders[0], "db/production.sqlite3"), "ab") { |file| file.write("x") }
      refute_equal(*folders.map { |folder| DoctorFault.checksum(folder) })
    end
  end

  private

  def fault(name) = DoctorFault.named([name]).first

  def report(**found)
    results = DoctorResults.new(proofs: [], real: [], live: [], **found)
    DoctorReport.new(results, facts: Hash.new(0).merge("load_before" => []), versions: {}, options: {}, command: "bin/bench doctor", clock: Struct.new(:seconds).new(60)).markdown
  end

  def latencies(answers, *steps)
    DoctorLatencies.read("answers" => answers, "percentiles" => steps.map { |percent, ms| { "percent" => percent, "ms" => ms } })
  end

  # Its loads have these 99th percentiles, in milliseconds.
  def live_row(quiet, during)
    load = ->(ms) { DoctorLoad.new(latencies: latencies(100, [0.0, 1.0], [98.0, 1.0], [100.0, ms.to_f]), cpu: 3.0, failures: {}, elsewhere: 0.1) }
    DoctorLiveRow.new(rate: 10, quiet: quiet.map(&load), rounds: during.map { |ms| DoctorLiveRound.new(during: load[ms], seconds: 60.4, waited: 3) })
  end

  # As the doctor's JSON has it.
  def said(kind, route, gain = { gain_us: 10, of_us: 100, bound: "measured" })
    { "kind" => kind, "routes" => [route], "fix" => { "line" => "+" }, "at" => "app/x.rb:1", "gains" => [gain.transform_keys(&:to_s)] }
  end

  def judged(advice)
    DoctorProof.new(fault: fault("n_plus_one"), of_fault: DoctorSays.new("advice" => advice), of_twin: DoctorSays.new("advice" => []), failures: {})
  end
end
