# frozen_string_literal: true

# A preprocessor of mdBook (book.toml): links that lead out of docs/ become their text, as the book has no page for them.
# mdBook asks `supports RENDERER` first, then gives the book as JSON on standard input and reads the changed one from standard output.
require "json"

LINK = /(?<!!)\[([^\[\]]*)\]\(([^()\s]+)\)/

def outside?(target, folder)
  path = target[/\A[^#]*/]
  return false if path.empty? || path.match?(%r{\A(?:[A-Za-z][A-Za-z0-9+.-]*:|/)})

  !File.expand_path(path, File.join("/docs", folder)).start_with?("/docs/")
end

def change(items)
  items.each do |item|
    chapter = item.is_a?(Hash) && item["Chapter"] or next
    folder = File.dirname(chapter["path"] || "")
    chapter["content"] = chapter["content"].gsub(LINK) { |link| outside?($2, folder) ? $1 : link }
    change(chapter["sub_items"])
  end
end

exit 0 if ARGV[0] == "supports"

_context, book = JSON.parse($stdin.read)
change(book["items"] || book["sections"])
puts JSON.generate(book)
