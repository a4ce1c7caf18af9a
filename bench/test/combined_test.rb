# frozen_string_literal: true

# What several runs of `bin/bench serve` amount to.
require "json"
require "minitest/autorun"
require "tmpdir"
require_relative "../serve/published"

class CombinedTest < Minitest::Test
  include Bench

  def test_the_least_and_the_most_of_the_runs
    combined = Combined.new("a" => result(0.83, 1.29), "b" => result(0.91, 1.2), "c" => result(0.8, 1.31))
    assert_equal [[0.8, 0.91], []], combined.range(%w[hello kept ours], "paceline", "rate_ratio")
    text = combined.markdown
    assert_match(/^\| Rack, 27 bytes, kept: requests\/s +\| +10,000 \| +0\.80-0\.91x \|$/, text)
    assert_match(/^\| Rack, 27 bytes, kept: CPU µs a request +\| +80 \| +1\.20-1\.31x \|$/, text)
    assert_match(/^\| Rack, 27 bytes, kept: system calls a request +\| +5\.00 \| +12\.50 \|$/, text)
    assert_includes text, "3 runs of `bin/bench serve`"
    refute_includes text, "**"
  end

  def test_a_wrong_answer_in_one_run_leaves_no_figure
    wrong = result(0.83, 1.29)
    wrong["results"][0]["servers"][1] = { "server" => "paceline", "wrong" => "3 x /hello: status 500" }
    assert_match(/^\| Rack, 27 bytes, kept: requests\/s +\| +10,000 \| no figure: 3 x \/hello: status 500 \|$/, Combined.new("a" => result(0.83, 1.29), "b" => wrong, "c" => result(1, 1)).markdown)
  end

  def test_a_load_generator_that_limits_is_told
    limited = result(1.9, 0.5)
    limited["results"][0]["servers"][1]["generator_busy"] = 0.9
    text = Combined.new("a" => result(2.0, 0.5), "b" => limited).markdown
    assert_match(/requests\/s +\| +10,000 \| +1\.90-2\.00x\* \|$/, text)
    assert_includes text, "\\* The load generator was busy for more than 85 % of the time"
    refute_includes Combined.new("a" => result(2.0, 0.5)).markdown, "load generator"
  end

  def test_what_makes_runs_doubtful_is_told
    few = result(0.83, 1.29).merge("rounds" => 2, "versions" => { "paceline" => "another" })
    text = Combined.new("a" => few, "b" => result(1, 1)).markdown
    ["Fewer than 3 runs", "fewer than 5 rounds", "Different versions"].each { |what| assert_includes text, what }
  end

  def test_results_of_servers_that_did_not_take_turns_are_refused
    assert_raises(Combined::Unusable) { Combined.new("old" => result(1, 1).reject { |name, _| name == "paired" }) }
  end

  def test_files_that_are_no_results_are_refused
    assert_raises(Combined::Unusable) { Combined.read([]) }
    assert_raises(Combined::Unusable) { Combined.read(["/no/such/file.json"]) }
    assert_raises(Combined::Unusable) { Combined.read([__FILE__]) }
  end

  def test_generators_have_rows_of_their_own
    text = Combined.new("a" => by("wrk", 0.83, 1.29), "b" => by("ab", 0.9, 1.1), "c" => result(0.9, 1.2)).markdown
    assert_match(/^\| Rack, 27 bytes, kept, wrk: requests\/s +\| +10,000 \| +0\.83x \|$/, text)
    assert_match(/^\| Rack, 27 bytes, kept, ours: requests\/s +\| +10,000 \| +0\.90x \|$/, text)
    assert_includes text, "Generators: wrk 4.1, ab 4.1."
  end

  def test_the_readme_has_the_generator_that_is_worst_for_us
    runs = { "a" => by("wrk", 1.1, 0.9), "b" => by("wrk", 1.3, 1.0), "c" => by("ab", 1.2, 1.1), "d" => by("ours", 1.9, 0.5) }
    text = Readme.new(Combined.new(runs)).markdown
    assert_match(/^\| Rack, 27 bytes, 64 kept connections: requests\/s +\| \*\*1\.10-1\.30x\*\* +\| +wrk \|$/, text)
    assert_match(/^\| Rack, 27 bytes, 64 kept connections: CPU a request +\| +\*\*1\.10x\*\* +\| +ab \|$/, text)
    refute_includes text, "Redmine, `/`", "what was not measured is no row"
    assert_includes text, "Ruby 3.4.11 with YJIT, Puma 8.0.2, Rack 3.2.7; access log on"
  end

  def test_results_without_paceline_make_no_table
    found = by("wrk", 1.1, 0.9)
    found["results"][0]["servers"].pop
    assert_raises(Combined::Unusable) { Readme.new(Combined.new("a" => found)).markdown }
  end

  def test_a_wrong_answer_by_one_generator_is_the_worst
    wrong = by("ab", 9.9, 0.1)
    wrong["results"][0]["servers"][1] = { "server" => "paceline", "wrong" => "ab: 3 failed requests" }
    assert_match(/requests\/s +\| +no figure \| +ab \|$/, Readme.new(Combined.new("a" => by("wrk", 1.1, 0.9), "b" => wrong)).markdown)
  end

  def test_a_document_has_the_table_of_the_results_that_it_names
    Dir.mktmpdir do |root|
      FileUtils.mkdir_p(File.join(root, Published::RESULTS))
      File.write(File.join(root, Published::RESULTS, "a.json"), JSON.generate(by("wrk", 1.1, 0.9)))
      text = "Before.\n\n<!-- bin/bench serve --readme a.json -->\nold\n<!-- end -->\n\nAfter.\n"
      renewed = Published.renew(text, root)
      assert_match(/\ABefore\.\n\n<!-- bin.bench serve --readme a\.json -->\n\n1 run of .*1\.10x.*<!-- end -->\n\nAfter\.\n\z/m, renewed)
      refute_includes renewed, "old"
      assert_equal renewed, Published.renew(renewed, root)
    end
  end

  def test_the_documents_tables_are_those_of_their_results
    root = File.expand_path("../..", __dir__)
    Published::DOCUMENTS.each do |name|
      text = File.read(File.join(root, name))
      assert_match Published::BLOCK, text, name
      assert_equal text, Published.renew(text, root), "#{name}: run `bin/bench serve --publish`"
    end
  end

  private

  def by(generator, rate, cpu)
    found = result(rate, cpu).merge("generators" => { generator => "4.1" }, "access_log" => "on", "versions" => { "paceline" => "1", "gem puma" => "8.0.2", "gem rack" => "3.2.7" })
    found["machine"]["ruby"] = "ruby 3.4.11 (2026-01-01) +YJIT +PRISM [x86_64-linux]"
    found["results"][0].merge!("generator" => generator, "key" => "c64k")
    found
  end

  def result(rate, cpu)
    servers = [{ "server" => "puma", "rate" => 10_000.0, "rate_ratio" => 1.0, "cpu" => 80.0, "cpu_ratio" => 1.0, "p99" => 0.05, "p99_ratio" => 1.0, "calls" => 5.0, "switches" => 2.0 },
               { "server" => "paceline", "rate" => 9_000.0, "rate_ratio" => rate, "cpu" => 99.0, "cpu_ratio" => cpu, "p99" => 0.01, "p99_ratio" => 0.2, "calls" => 12.5, "switches" => 2.7 }]
    { "command" => "bin/bench serve", "paired" => true, "rounds" => 5, "machine" => { "date" => "today", "processor" => "one", "processors" => 2, "kernel" => "6" },
      "versions" => { "paceline" => "1" }, "results" => [{ "scenario" => "hello", "load" => "kept", "servers" => servers }] }
  end
end
