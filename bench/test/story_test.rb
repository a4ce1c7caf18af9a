# frozen_string_literal: true

# `bin/bench story`: its sums, the page that is made from results, and the list. Nothing is measured.
require "minitest/autorun"
require "json"
require "open3"
require_relative "../story/catalogue"
require_relative "../story/inside_outside"
require_relative "../story/page"
require_relative "../story/report"

class StoryTest < Minitest::Test
  include Bench

  NASTY = %q(<script>alert("1")</script> & 'x')
  FACTS = { "date" => "2026-11-26 03:00 UTC", "processors" => 2, "processor" => "P <1>", "ruby" => "ruby 3.1", "kernel" => "6.1", "memory_mb" => 4, "load_before" => [0.1] }.freeze
  WORDS = StoryWords.new(name: "told", title: "Told & tried", slow: "It was slow.", published: "Published: 3 s.", change: ["config.rb", "quick = true\n<b>"], shown: ["A load", "old", "paceline"])

  def test_the_list_has_each_story_with_its_title
    assert_equal Stories::NAMES, Stories.list.lines.map { |line| line.split.first }
    Stories.all.each do |story|
      words = story.words
      assert words.to_h.values.all?, "#{words.name} leaves out some words"
      assert_equal story, Stories.named([words.name]).first
      assert_equal [2, 3], [words.change.size, words.shown.size]
    end
    assert_match(/no story nosuch; there are xml/, assert_raises(ArgumentError) { Stories.named(["nosuch"]) }.message)
  end

  def test_an_unknown_story_is_refused_with_the_names_of_those_that_there_are
    text, status = Open3.capture2e("ruby", File.expand_path("../story.rb", __dir__), "nosuch")
    assert_equal 64, status.exitstatus
    assert_includes text, "bin/bench story: no story nosuch; there are #{Stories::NAMES.join(", ")}"
  end

  def test_a_ratio_says_how_many_times_better_in_the_same_round
    quicker = StoryFigures.of_rounds("quick", { "ms" => [1.0, 2.0, 10.0] }, main: "ms", base: [10.0, 40.0, 30.0])
    assert_equal [2.0, [1.0, 10.0], 10.0, [3.0, 20.0]], [quicker.figures["ms"], quicker.range, quicker.ratio, quicker.spread]
    more = StoryFigures.of_rounds("more", { "rate" => [20.0, 90.0] }, main: "rate", base: [10.0, 30.0])
    assert_equal [2.5, [2.0, 3.0]], [more.ratio, more.spread]
    alone = StoryFigures.of_rounds("alone", { "ms" => [1.0] }, main: "ms", base: [nil])
    assert_equal [nil, nil], [alone.ratio, alone.spread]
    assert_equal({ name: "none", figures: {} }, StoryFigures.of_rounds("none", { "ms" => [nil] }, main: "ms", base: [1.0]).to_h)
  end

  def test_a_summary_becomes_a_part_in_milliseconds
    row = Summary::Row.new(server: "puma", rate: 100.0, p50: 0.0025, p99: 0.01, cpu: 50.0, calls: 4.0, rate_ratio: 1.0, rate_spread: [1.0, 1.0], by_round: [{ rate: 90.0 }, { rate: 110.0 }])
    wrong = Summary::Row.new(server: "thin", wrong: "3 x /: status 500")
    part = StoryFigures.of_group(Summary::Group.new(scenario: "s", shape: "x", rows: [row, wrong]), title: "T", baseline: "puma", more: { "puma" => { "writes" => 1.0 } })
    assert_equal({ "rate" => 100.0, "p50" => 2.5, "p99" => 10.0, "cpu" => 50.0, "calls" => 4.0, "writes" => 1.0 }, part.rows[0].figures)
    assert_equal [90.0, 110.0], part.rows[0].range
    assert_equal({ name: "thin", wrong: "3 x /: status 500" }, part.rows[1].to_h)
  end

  def test_figures_are_as_precise_as_they_are_worth
    assert_equal ["18,922", "2.50", "12.3", "123", "7", ""], [StoryFigures.text("rate", 18_922.4), StoryFigures.text("ms", 2.5), StoryFigures.text("ms", 12.34), StoryFigures.text("ms", 123.4),
                                                              StoryFigures.text("failed", 7), StoryFigures.text("ms", nil)]
    assert_equal ["3.91x (3.80-4.02)", "2.00x", ""], [StoryFigures.times(3.91, [3.8, 4.02]), StoryFigures.times(2.0, nil), StoryFigures.times(nil, nil)]
  end

  def test_bars_are_in_proportion_to_the_greatest
    svg = StoryChart.svg(part)
    assert_equal %w[100% 25%], svg.scan(/width="([\d.]+%)" height="16"/).flatten
    assert_includes svg, 'class="bar own"'
    assert_includes svg, %(<line x1="20%" x2="30%")
    refute_includes svg, "broken", "a way without figures has no bar"
    assert_equal "", StoryChart.svg(part.merge("rows" => [{ "name" => "broken", "wrong" => "it ended" }]))
  end

  def test_the_time_inside_is_part_of_the_bar
    svg = StoryChart.svg("title" => "T", "main" => "outside", "rows" => [{ "name" => "puma", "figures" => { "outside" => 10.0, "inside" => 1.0 } }])
    assert_includes svg, %(width="10%" height="16" rx="3" class="inside")
  end

  def test_nothing_of_a_result_gets_into_the_page_unescaped
    spoil = lambda do |value, key = nil|
      case value
      when Hash then value.to_h { |name, inner| [name, spoil.call(inner, name)] }
      when Array then value.map { |inner| spoil.call(inner, key) }
      when String then %w[main measure].include?(key) ? value : value + NASTY
      else value
      end
    end
    spoilt = spoil.call(result).merge("not_run" => { NASTY => NASTY })
    html = StoryPage.new([spoilt]).html
    refute_match(/<script|alert\("/, html)
    assert_operator html.scan("&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt; &amp; &#39;x&#39;").size, :>, 15
  end

  def test_the_page_needs_nothing_from_elsewhere
    html = StoryPage.new([result]).html
    refute_match(/<script|<link|<img|\bsrc=|@import|url\(|https?:/, html)
    assert_includes html, "prefers-color-scheme: dark"
    assert_includes html, 'name="viewport" content="width=device-width'
  end

  def test_a_card_tells_all
    html = StoryPage.new([result]).html
    ["Told &amp; tried", "It was slow.", "Published: 3 s.", "<code>config.rb</code>", "quick = true\n&lt;b&gt;", "before: old", "after: paceline", "4.00x", "3.00x to 5.00x in the rounds",
     "no figure: it ended", "thin: not installed", "2 x P &lt;1&gt;", "2026-11-26 03:00 UTC", "bin/bench story told", "2 rounds: a first impression"].each { |text| assert_includes html, text }
  end

  def test_a_chart_says_what_it_shows_and_which_side_is_better
    html = StoryPage.new([result]).html
    assert_includes html, %(<p class="caption">Requests answered each second (requests/s): a longer bar is better</p>)
    assert_includes html, "Times better: than old, in requests/s; the median of the rounds' ratios"
    StoryFigures::MEASURES.each_value { |measure| assert_match(/: a (longer|shorter) bar is better\z/, measure.caption) }
    assert_equal "99 of 100 requests took no longer than this (ms): a shorter bar is better", StoryFigures::MEASURES["p99"].caption

    # Where nothing is compared there is no column for it; where the ratios are of another figure than the chart's that is said.
    alone = result
    alone["parts"].each { |part| part["rows"].each { |row| row.delete("ratio") } }
    refute_includes StoryPage.new([alone]).html, "<th>times better</th>"
    by_time = result
    by_time["parts"].each { |part| part["main"] = "p50" }
    by_time["shown"]["measure"] = "p50"
    html = StoryPage.new([by_time]).html
    assert_includes html, "Times better: than old, in requests/s"
    assert_includes html, "times better, in requests/s"
  end

  def test_the_newest_result_of_a_story_counts_and_stories_are_in_order
    older = result.merge("title" => "Outdated", "machine" => FACTS.merge("date" => "2026-11-25 23:00 UTC"))
    other = result.merge("story" => "first", "title" => "The first one")
    html = StoryPage.new([result, older, other], %w[first told]).html
    refute_includes html, "Outdated"
    assert_equal %w[story-first story-told], html.scan(/<article id="([^"]+)"/).flatten
    assert_includes StoryPage.new([]).html, "No story has been measured yet."
  end

  def test_five_rounds_are_no_first_impression_and_a_quick_run_is
    warned = ->(**options) { StoryPage.new([result.merge("options" => { "rounds" => 5, "quick" => false }.merge(options.transform_keys(&:to_s)))]).html.include?("first impression") }
    refute warned.call
    assert warned.call(quick: true)
    assert warned.call(rounds: 4)
  end

  def test_a_machine_that_was_not_idle_is_named
    words = "The machine was not idle before the run: a load of 1.1 for 2 processors."
    { [1.1, 0.0, 0.0] => words, [1.0, 9.0, 9.0] => nil, [] => nil, nil => nil }.each { |load, said| assert_equal [said], [StoryFigures.busy(FACTS.merge("load_before" => load))] }
    assert_includes StoryPage.new([result.merge("machine" => FACTS.merge("load_before" => [1.1]))]).html, %(<p class="warn">#{words}</p>)
    refute_includes StoryPage.new([result]).html, "not idle"
    refute_includes report.markdown, "not idle"
    assert_includes report(facts: FACTS.merge("load_before" => [1.1])).markdown, "**#{words}**"
  end

  def test_a_card_says_better_worse_or_no_difference
    said = lambda do |ratio, spread|
      told = result
      told["shown"].merge!("ratio" => ratio, "spread" => spread)
      StoryPage.new([told]).html[%r{<div class="ratio">.*?</div>}]&.gsub(/<[^>]+>/, " ")&.squeeze(" ")&.strip
    end
    assert_equal "times better 4.00x 3.00x to 5.00x in the rounds", said[4.0, [3.0, 5.0]]
    assert_equal "times worse 1.33x 1.25x to 2.00x in the rounds", said[0.75, [0.5, 0.8]]
    assert_equal "no difference 0.90x to 1.40x in the rounds", said[1.2, [0.9, 1.4]]
    # One round does not tell how much figures vary.
    assert_equal ["no difference", "times better 1.20x"], [said[1.08, [1.08, 1.08]], said[1.2, [1.2, 1.2]]]
    assert_nil said[0.0, [0.0, 0.0]]
    none = StoryFigures.of_rounds("none", { "rate" => [0.0] }, main: "rate", base: [10.0])
    assert_equal [nil, nil], [none.ratio, none.spread]
  end

  def test_the_report_has_a_table_for_each_part
    text = report.markdown
    assert_match(/\| +\| +requests\/s \| p50 ms \| +x \|/, text)
    assert_match(/\| paceline +\| +400 \| +2\.50 \| 4\.00x \(3\.00-5\.00\) \|/, text)
    assert_match(/\| broken +\| no figure: it ended \| +- \| +- \|/, text)
    assert_includes text, "- load, thin: not installed"
  end

  def test_a_card_without_both_figures_shows_none
    rows = [StoryFigures::Row.new(name: "old", wrong: "it ended"), StoryFigures::Row.new(name: "paceline", figures: { "rate" => 1.0 })]
    report = report([StoryFigures::Part.new(title: "A load, 1 connection", main: "rate", rows: rows)])
    assert_nil report.shown
    refute_includes StoryPage.new([JSON.parse(JSON.generate(report.data))]).html, 'class="shown"'
  end

  def test_a_response_is_whole_when_its_end_is_there
    chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n"
    refute InsideOutside.whole?(chunked)
    assert InsideOutside.whole?("#{chunked}0\r\n\r\n")
    counted = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab"
    refute InsideOutside.whole?(counted)
    assert InsideOutside.whole?("#{counted}c")
    refute InsideOutside.whole?("HTTP/1.1 200 OK\r\nContent-Le"), "the head is not over"
    refute InsideOutside.whole?("HTTP/1.1 200 OK\r\n\r\nabc"), "only its end tells"
  end

  def test_the_gap_is_compared_round_by_round
    medians = { "puma" => { 1 => [10.0, 1.0], 2 => [20.0, 1.0] }, "paceline" => { 1 => [2.0, 1.0], 2 => [2.0, 1.2] } }
    part = Stories::OnewriteStory::WithGap.gap(medians, "puma", nil)
    assert_equal [7.5, [5.0, 10.0], 1.1], [part.rows[1].ratio, part.rows[1].spread, part.rows[1].figures["inside"]]
  end

  def test_calls_are_compared_by_the_medians_of_the_same_rounds
    row = ->(way, **more) { OutboundContest::Row.new(way: way, title: "by #{way}", ms: 1.0, cpu: 2.0, opened: 3.0, **more) }
    visits = { "slow" => [[10.0, 12.0, 50.0], [20.0]], "quick" => [[4.0], [4.0]], "broken" => [[1.0], [1.0]] }.flat_map { |way, rounds| rounds.map { |ms| { way: way, ms: ms } } }
    part = Stories::ProvisionStory::Calls.part([row["slow"], row["quick"], row["broken", wrong: "status 500"]], visits, "")
    assert_equal ["by slow", "by quick", "by broken"], part.rows.map(&:name)
    assert_equal [4.0, [3.0, 5.0], { "ms" => 4.0, "cpu_ms" => 2.0, "opened" => 3.0 }], [part.rows[1].ratio, part.rows[1].spread, part.rows[1].figures]
    assert_equal "status 500", part.rows[2].wrong
  end

  def test_connections_under_load_are_those_of_a_round
    row = ->(way, opened, seconds, wrong = nil) { OutboundWorkers::Row.new(way: way, title: way, calls: 600, seconds: seconds, ms: seconds * 30, opened: opened, wrong: wrong) }
    part = Stories::ProvisionStory::Loaded.part([[row["slow", 600, 6.0], row["quick", 1, 1.0], row["broken", 1, 1.0, "status 500"]], [row["slow", 600, 6.0], row["quick", 2, 2.0], row["broken", 1, 1.0]]])
    assert_equal "Under load, 600 calls", part.title
    assert_equal({ "opened" => 1.5, "ms" => 45.0, "rate" => 450.0 }, part.rows[1].figures)
    assert_equal [450.0, [300.0, 600.0], "status 500"], [part.rows[1].ratio, part.rows[1].spread, part.rows[2].wrong]
  end

  def test_records_are_compared_with_rubys_pstore
    row = ->(way, *us) { PStoreContest::Row.new(way: way, records: 1_000, what: "update", us: us[0], cpu: 9.0, together: 7.0, by_round: us) }
    part = Stories::PstoreStory::Records.part("update", [row["pstore", 300.0, 100.0], row["paceline", 3.0, 2.0]])
    assert_equal ["One record changed", "Ruby's PStore"], [part.title, part.baseline]
    assert_equal ["Paceline::PStore", 75.0, [50.0, 100.0], 9.0], [part.rows[1].name, part.rows[1].ratio, part.rows[1].spread, part.rows[1].figures["cpu"]]
    assert_empty Stories::PstoreStory::Records.part("read", []).rows
  end

  def test_a_deploy_counts_what_is_lost_in_all_rounds
    way = ->(mode, name) { RestartWay.new(name: name, title: "by #{name}", server: Server.new(name: "puma"), mode: mode) }
    times = ->(p99) { RestartVisit::Times.new(100, 0.01, p99, 0.5) }
    seen = ->(p99, failed) { RestartVisit::Seen.new(quiet: times[0.02], during: times[p99], failed_kept: failed, failed_new: 1, switched: [2.0, 4.0]) }
    options = Stories::DeployStory::Options.new(clients: 25, boot_ms: 1500)
    good = Stories::DeployStory::Restarts.part([[way["ok", "hot"], [seen[2.0, 3], seen[4.0, 0]]], [way["ok", "touch"], [seen[0.5, 0], seen[0.5, 0]]]], options)
    assert_equal ["A version that works", "puma: by hot", "p99"], [good.title, good.baseline, good.main]
    assert_equal [5, 405, 3000.0, 3.0], good.rows[0].figures.values_at("failed", "requests", "p99", "seconds")
    assert_equal [6.0, [4.0, 8.0]], [good.rows[1].ratio, good.rows[1].spread]
    bad = Stories::DeployStory::Restarts.part([[way["raise", "hot"], [seen[2.0, 3]]]], options)
    assert_equal ["A version that does not load", "failed", 4, nil], [bad.title, bad.main, bad.rows[0].figures["failed"], bad.rows[0].ratio]
  end

  def test_pages_that_are_ready_are_compared_with_those_that_expire
    round = ->(p99) { { across: [1.0, p99, 90.0], cpu: 50.0, switches: 2.0, failed: 1 } }
    part = Stories::AheadStory::Sale.part({ "paceline, scheduled" => [round[5.0], round[10.0]], "paceline, expiry" => [round[20.0], round[60.0]] }, Stories::AheadStory::SALE[true])
    assert_equal ["paceline, expiry", "paceline, scheduled"], part.rows.map(&:name)
    assert_equal [5.0, [4.0, 6.0], 2, 7.5], [part.rows[1].ratio, part.rows[1].spread, part.rows[1].figures["failed"], part.rows[1].figures["p99"]]
  end

  # Two versions as `paceline compare --json` has them: B answers twice as much, and has more memory.
  COMPARED = lambda do |rate, wrong: 0|
    rounds = ->(factor) { rate.map { |one| { "rate" => one * factor, "p50" => 5.0, "p99" => 9.0, "cpu_ms" => 2.0 / factor, "switches" => 3.0 } } }
    memory = ->(megabytes) { { "pss" => (megabytes + 1) << 20, "private_dirty" => megabytes << 20, "slots_used" => 400_000, "slots_free" => nil } }
    side = ->(cold, after) { { "start_seconds" => 1.5, "memory" => { "cold" => memory[cold], "after" => memory[after] } } }
    { "settings" => { "clients" => 4, "workers" => 2, "threads" => 3, "requests" => 3000 }, "sides" => { "A" => side[90, 120], "B" => side[110, 150] },
      "pages" => { RailsVersions::PATH => { "figures" => { "A" => { "rounds" => rounds[1], "wrong" => wrong, "answers" => 9, "system_calls" => 40.5 }, "B" => { "rounds" => rounds[2], "wrong" => 0, "system_calls" => nil } } } } }
  end

  def test_versions_of_rails_are_compared_round_by_round
    part = RailsVersions.page(COMPARED[[100.0, 50.0, 80.0]], RailsVersions::WAYS[0], %w[old new])
    assert_equal ["The list, no sessions", "rate", "old"], [part.title, part.main, part.baseline]
    assert part.title.start_with?(Stories::RailsStory::WORDS.shown.first), "its card has no figures"
    assert_equal [160.0, 2.0, [2.0, 2.0], 1000.0], [part.rows[1].figures["rate"], part.rows[1].ratio, part.rows[1].spread, part.rows[1].figures["cpu"]]
    assert_equal [40.5, nil], part.rows.map { |row| row.figures["calls"] }
    assert_equal "3 of 9 answers are wrong", RailsVersions.page(COMPARED[[1.0], wrong: 3], RailsVersions::WAYS[0], %w[old new]).rows[0].wrong
  end

  def test_memory_of_versions_before_and_after_the_requests
    results = RailsVersions::WAYS.to_h { |way| [way, COMPARED[[1.0]]] }
    cold, after = %w[cold after].map { |moment| RailsVersions.memory(results, moment, %w[old new]) }
    assert_equal ["Memory, cold: before the first request", "Memory after 3,000 requests"], [cold.title, after.title]
    assert_equal ["old, no sessions", "new, no sessions", "old, a visitor's session", "new, a visitor's session"], after.rows.map(&:name)
    assert_equal({ "pss_mb" => 111.0, "private_mb" => 110.0, "slots_used" => 400_000, "start" => 1.5 }, cold.rows[1].figures)
    assert_equal({ "pss_mb" => 151.0, "private_mb" => 150.0, "slots_used" => 400_000 }, after.rows[1].figures)
  end

  def test_stale_pages_are_those_of_the_author_in_all_rounds
    author = ->(server, *counts) { CacheStory::Author.new(server: server, idle: RedmineAuthor::Result.new(stale: ["x"] * counts[0]), busy: RedmineAuthor::Result.new(stale: ["x"] * counts[1])) }
    assert_equal({ "nginx" => 6, "paceline" => 0 }, Stories::ProxyStory::Cached.stale([author["nginx", 1, 2], author["paceline", 0, 0], author["nginx", 3, 0]]))
  end

  private

  def part
    { "title" => "A load, 25 connections", "note" => "As it was.", "main" => "rate", "baseline" => "old",
      "rows" => [{ "name" => "old", "figures" => { "rate" => 400.0 }, "ratio" => 1.0, "spread" => [1.0, 1.0] }, { "name" => "paceline", "figures" => { "rate" => 100.0 }, "range" => [80.0, 120.0] },
                 { "name" => "broken", "wrong" => "it ended" }] }
  end

  def report(parts = nil, facts: FACTS)
    parts ||= [StoryFigures::Part.new(title: "A load, 25 connections", note: "As it was.", main: "rate", baseline: "old", rows: [
                                        StoryFigures::Row.new(name: "old", figures: { "rate" => 100.0, "p50" => 10.0 }, ratio: 1.0, spread: [1.0, 1.0], range: [90.0, 110.0]),
                                        StoryFigures::Row.new(name: "paceline", figures: { "rate" => 400.0, "p50" => 2.5 }, ratio: 4.0, spread: [3.0, 5.0], range: [390.0, 410.0]),
                                        StoryFigures::Row.new(name: "broken", wrong: "it ended")
                                      ])]
    options = StorySetting.new(rounds: 2, seconds: 0.5, quick: false)
    StoryReport.new(WORDS, parts, { "load, thin" => "not installed" }, facts: facts, versions: { "paceline" => "0.1" }, options: options, command: "bin/bench story told", clock: Struct.new(:seconds).new(60))
  end

  def result = JSON.parse(JSON.generate(report.data))
end
