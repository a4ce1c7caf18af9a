# frozen_string_literal: true

require "cgi"

# The pages of a book that mdBook has built: each link between them leads to a file of the book, and each #anchor to an id on its page. So what
# MarkdownPage says of anchors is held to what mdBook makes of them. It never asks the network.
class Book
  def initialize(folder)
    @folder = File.realpath(folder)
    @ids = {}
  end

  def problems
    pages = Dir[File.join(@folder, "**/*.html")].sort - [File.join(@folder, "print.html"), File.join(@folder, "404.html")]
    pages.flat_map do |file|
      targets = File.read(file, encoding: "UTF-8").scan(/<(?:a|img)\b[^>]*?\b(?:href|src)="([^"]*)"/).flatten.uniq
      targets.filter_map { |target| problem(file, CGI.unescapeHTML(target)) }
    end
  end

  private

  def problem(file, target)
    return if target.match?(%r{\A(?:[A-Za-z][A-Za-z0-9+.-]*:|//)})

    path, anchor = target.split("#", 2)
    found = path.to_s.empty? ? file : File.expand_path(path, File.dirname(file))
    from = file.delete_prefix("#{@folder}/")
    return "#{from}: #{target} is not in the book" unless File.file?(found)

    "#{from}: #{target}: nothing there has this id" if anchor && !anchor.empty? && !ids(found).include?(CGI.unescape(anchor))
  end

  def ids(file)
    @ids[file] ||= File.read(file, encoding: "UTF-8").scan(/\bid="([^"]+)"/).flatten.map { |id| CGI.unescapeHTML(id) }
  end
end
