# frozen_string_literal: true

# Redmine's feeds and API, by Builder and by Paceline: the same bytes from the same database at the same time. Redmine has a subclass of
# Builder::XmlMarkup of its own, with another tag!.
#
#   REDMINE_DIR=tmp/redmine ruby test/xml/redmine_test.rb          (test/redmine/prepare makes it; bin/trixie run ... for Redmine 6)
require "minitest/autorun"
require "fileutils"
require "rbconfig"
require "tmpdir"

class XmlRedmineTest < Minitest::Test
  DIRECTORY = File.expand_path(ENV.fetch("REDMINE_DIR", File.expand_path("../../tmp/redmine", __dir__)))
  ANSWERS = File.expand_path("redmine/answers.rb", __dir__)
  Minitest.after_run { FileUtils.rm_rf(@@work) if defined?(@@work) }

  # A directory with a filled copy of the database; and what Builder answers from it.
  def self.work
    @@work ||= Dir.mktmpdir("paceline-xml").tap do |work|
      copy(File.join(DIRECTORY, "db/production.sqlite3"), File.join(work, "filled.sqlite3"))
      call(work, "filled.sqlite3", "fill")
    end
  end

  # With what lies in its log.
  def self.copy(from, to)
    system("sqlite3", from, "VACUUM INTO '#{to}'", exception: true)
  end

  def self.call(work, database, way, *more, **environment)
    log = File.join(work, "log")
    return if system(environment.transform_keys(&:to_s), RbConfig.ruby, ANSWERS, DIRECTORY, File.join(work, database), way, *more, %i[out err] => log)

    raise "Redmine failed by the way `#{way}`:\n#{File.readlines(log).grep_v(/^\s+from .*\/gems\//).first(30).join}"
  end

  # What Redmine answers when XML is written by this way; each gets a copy of the same database.
  def self.answers(way, **environment)
    (@@answers ||= {})[[way, environment]] ||= begin
      Dir.glob(File.join(work, "asked.sqlite3*")).each { |path| File.unlink(path) }
      copy(File.join(work, "filled.sqlite3"), File.join(work, "asked.sqlite3"))
      call(work, "asked.sqlite3", way, File.join(work, "answers"), **environment)
      Marshal.load(File.binread(File.join(work, "answers"))) # our own script wrote it
    end
  end

  def answers(...) = self.class.answers(...)

  def test_builder_answers_all_that_is_asked
    stock = answers("builder")
    unexpected = stock[:asked].reject { |name, one| one[:status] == { "an issue without a subject" => 422, "a new issue" => 201, "an upload" => 201, "what is not there" => 404 }.fetch(name, 200) }
    assert_empty unexpected
    stock[:asked].each { |name, one| assert_match(/\A(application|text)\/(atom\+)?xml/, one[:type], name) unless one[:status] == 404 }
    assert_equal "Builder::XmlMarkup", stock[:about][:superclass]
  end

  # So that nothing of it is left out: a view that the next Redmine brings is missed here.
  def test_every_view_that_writes_xml_was_rendered
    views = Dir.glob("app/views/**/*.{rsb,builder}", base: DIRECTORY)
    assert_operator views.size, :>, 30
    assert_empty views - answers("builder")[:templates]
  end

  # What fill.rb put there for it reached the views.
  def test_the_answers_have_the_characters_that_matter
    all = answers("builder")[:asked].values.map { |one| one[:body].dup.force_encoding("UTF-8") }.join
    ["Kettle &amp; valve &lt;leaks&gt;", "Größe – naïve Ærø ☕ 𝔘", "&#13;", "\uFFFD", "…", "’", "]]&gt;", "&quot;"].each { |text| assert_includes all, text }
  end

  def test_the_setting_gives_the_same_bytes
    assert_equal "Paceline::XML::Builder", assert_same_answers("configured")[:superclass]
  end

  def test_the_replaced_builder_gives_the_same_bytes
    assert_equal "Paceline::XML::Builder", assert_same_answers("replaced")[:superclass]
  end

  def test_so_it_does_without_the_native_part
    about = assert_same_answers("configured", PACELINE_NATIVE: "0")
    assert_equal ["Paceline::XML::Builder", false], about.values_at(:superclass, :native)
  end

  # Redmine's class was made from Builder's before, and stays that; nothing breaks.
  def test_a_builder_replaced_too_late_changes_nothing_for_classes_made_of_it_before
    assert_equal false, assert_same_answers("late")[:superclass].start_with?("Paceline")
  end

  private

  def assert_same_answers(way, **environment)
    stock, ours = answers("builder"), answers(way, **environment)
    assert_equal stock[:asked].keys, ours[:asked].keys
    stock[:asked].each { |name, one| assert_equal one, ours[:asked][name], name }
    assert_equal stock[:templates], ours[:templates]
    ours[:about]
  end
end
