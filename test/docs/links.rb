# frozen_string_literal: true

require "uri"
require_relative "markdown_page"

# The links between the pages of a checkout: each relative link leads to a file or folder that is there, each #anchor to a heading of it,
# and docs/SUMMARY.md lists every page of docs/ once. It never asks the network: addresses of other hosts are not looked at.
class Links
  def initialize(root)
    @root = File.realpath(root)
    @pages = {}
  end

  # One sentence for each thing that is wrong, with its file and line; none if all is well.
  def problems
    files = Dir[File.join(@root, "*.md"), File.join(@root, "docs/**/*.md")].sort
    files.flat_map { |file| page(file).links.filter_map { |link| problem(file, link) } } + missing_in_summary
  end

  private

  def page(file)
    @pages[file] ||= MarkdownPage.new(File.read(file, encoding: "UTF-8"))
  end

  def name(file)
    file.delete_prefix("#{@root}/")
  end

  def problem(file, link)
    return if link.target.match?(%r{\A(?:[A-Za-z][A-Za-z0-9+.-]*:|//)})

    path, anchor = link.target.split("#", 2)
    target = path.to_s.empty? ? file : File.expand_path(URI.decode_www_form_component(path.gsub("+", "%2B")), File.dirname(file))
    wrong = fault(target, anchor, path)
    wrong && "#{name(file)}:#{link.line}: (#{link.target}): #{wrong}"
  end

  def fault(target, anchor, path)
    return "starts with a slash: write it relative to the page" if path.to_s.start_with?("/")
    return "leads out of the repository" unless target.start_with?("#{@root}/")
    return "#{name(target)} does not exist" unless File.exist?(target)
    return if anchor.nil? || !target.end_with?(".md")

    "#{name(target)} has no heading with the anchor ##{anchor}" unless page(target).anchors.include?(anchor)
  end

  def missing_in_summary
    docs = File.join(@root, "docs")
    summary = File.join(docs, "SUMMARY.md")
    return ["docs/SUMMARY.md does not exist"] unless File.exist?(summary)

    listed = page(summary).links.map { |link| File.expand_path(link.target, docs) }.tally
    pages = Dir[File.join(docs, "**/*.md")].sort - [summary]
    pages.filter_map do |file|
      count = listed.fetch(file, 0)
      "docs/SUMMARY.md lists #{name(file)} #{count} times: list it once" unless count == 1
    end
  end
end
