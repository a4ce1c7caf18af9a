# frozen_string_literal: true

# What the check of the docs finds and what it lets pass, in small checkouts and books of its own.
require "json"
require "minitest/autorun"
require "open3"
require "tmpdir"
require_relative "book"
require_relative "links"

class LinksTest < Minitest::Test
  SUMMARY = { "docs/SUMMARY.md" => "- [A](a.md)\n", "docs/a.md" => "# A\n" }.freeze

  def test_dead_link_to_a_file
    assert_equal ["README.md:3: (docs/gone.md): docs/gone.md does not exist"], problems("README.md" => "# X\n\nsee [this](docs/gone.md)\n")
  end

  def test_dead_anchor_on_another_page
    assert_equal ["README.md:1: (docs/a.md#b): docs/a.md has no heading with the anchor #b"], problems("README.md" => "[x](docs/a.md#b)")
  end

  def test_dead_anchor_on_the_same_page
    assert_equal ["docs/a.md:2: (#b): docs/a.md has no heading with the anchor #b"], problems("docs/a.md" => "# A\n[x](#b)\n")
  end

  def test_dead_image_definition_and_html
    page = "![x](one.png)\n\n[two]: two.md\n\n<a href=\"three.md\">x</a>\n"
    assert_equal %w[one.png two.md three.md], problems("SECURITY.md" => page).map { |problem| problem[/\((.*?)\)/, 1] }
  end

  def test_dead_link_over_two_lines_has_the_line_of_its_target
    assert_equal ["README.md:2: (gone.md): gone.md does not exist"], problems("README.md" => "see [this\npage](gone.md)\n")
  end

  def test_dead_link_below_a_folder
    assert_equal ["docs/more/b.md:1: (a.md): docs/more/a.md does not exist"],
      problems("docs/more/b.md" => "[x](a.md) [y](../a.md)", "docs/SUMMARY.md" => "[A](a.md)\n[B](more/b.md)")
  end

  def test_absolute_and_outside
    found = problems("README.md" => "[x](/docs/a.md) [y](../a.md)")
    assert_equal 2, found.size
    assert_includes found[0], "relative to the page"
    assert_includes found[1], "out of the repository"
  end

  def test_page_that_the_summary_lacks_or_has_twice
    assert_equal ["docs/SUMMARY.md lists docs/b.md 0 times: list it once"], problems("docs/b.md" => "# B")
    assert_equal ["docs/SUMMARY.md lists docs/a.md 2 times: list it once"], problems("docs/SUMMARY.md" => "[A](a.md) [B](a.md)")
  end

  def test_good_links
    page = <<~MARKDOWN
      # Hello, `World`: it's [a link](docs/a.md)!
      ## Twice
      ## Twice
      [a](docs/a.md) [b](docs/a.md#a) [c](#hello-world-its-a-link) [d](#twice-1) [e](docs) [f](https://example.com/gone#x) [g](mailto:a@b.test) [h](<docs/a.md> "title")
    MARKDOWN
    assert_empty problems("README.md" => page)
  end

  def test_code_has_no_links_and_no_headings
    page = "`[x](gone.md)` and\n\n    [x](gone.md)\n    # Not a heading\n\n```\n[x](gone.md)\n# Nor this\n```\n"
    assert_empty problems("README.md" => page)
    assert_equal 1, problems("README.md" => "#{page}\n[x](#nor-this)").size
  end

  def test_anchors_are_those_of_github
    { "Rails' `to_xml`, and more" => "rails-to_xml-and-more", "A / B" => "a--b", "For Prometheus: `GET /metrics`" => "for-prometheus-get-metrics",
      "Kölsch & *Alt*" => "kölsch--alt", "`--cache-size`" => "--cache-size" }.each { |heading, anchor| assert_equal anchor, MarkdownPage.anchor(heading) }
  end

  def test_book
    Dir.mktmpdir do |dir|
      File.write("#{dir}/a.html", '<h2 id="x">x</h2> <a href="b.html">b</a> <a href="#x">x</a> <a href="https://example.com/">e</a>')
      File.write("#{dir}/b.html", '<a href="a.html#x">a</a>')
      assert_empty Book.new(dir).problems
      File.write("#{dir}/b.html", '<a href="a.html#y">a</a> <img src="no.png">')
      assert_equal ["b.html: a.html#y: nothing there has this id", "b.html: no.png is not in the book"], Book.new(dir).problems
    end
  end

  def test_links_out_of_the_book_become_text
    chapter = { "Chapter" => { "content" => "[a](../README.md#x) [b](b.md) [c](#d) ![e](../e.png) [f](https://f.test/)", "path" => "a.md", "sub_items" => [] } }
    below = { "Chapter" => { "content" => "[a](../a.md) [b](../../README.md)", "path" => "more/b.md", "sub_items" => [] } }
    chapter["Chapter"]["sub_items"] << below
    output, status = Open3.capture2("ruby", File.join(__dir__, "outside_links.rb"), stdin_data: JSON.generate([{}, { "items" => [chapter, "Separator"] }]))
    assert status.success?
    changed = JSON.parse(output).fetch("items")[0].fetch("Chapter")
    assert_equal "a [b](b.md) [c](#d) ![e](../e.png) [f](https://f.test/)", changed.fetch("content")
    assert_equal "[a](../a.md) b", changed.fetch("sub_items")[0].fetch("Chapter").fetch("content")
  end

  private

  # What is wrong with a checkout of these files besides a summary and its only page.
  def problems(files)
    Dir.mktmpdir do |dir|
      SUMMARY.merge(files).each do |name, text|
        FileUtils.mkdir_p(File.dirname("#{dir}/#{name}"))
        File.write("#{dir}/#{name}", text)
      end
      Links.new(dir).problems
    end
  end
end
