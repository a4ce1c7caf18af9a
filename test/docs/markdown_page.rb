# frozen_string_literal: true

# A page of Markdown as far as links need it: its links with their lines, and the anchors of its headings. It never looks at other files.
class MarkdownPage
  Link = Struct.new(:target, :line)

  INLINE = /\]\(\s*<?([^()\s<>]*(?:\([^()\s]*\)[^()\s<>]*)*)>?(?:\s+"[^"]*")?\s*\)/
  DEFINITION = /^ {0,3}\[[^\]]+\]:[ \t]+<?([^\s>]+)/
  HTML = /<(?:a|img)\b[^>]*?\b(?:href|src)="([^"]*)"/
  OWN_ANCHOR = /<[a-z]+\b[^>]*?\b(?:id|name)="([^"]+)"/

  # The anchor that GitHub and mdBook give a heading with this text: lower case, spaces as hyphens, without any other punctuation.
  def self.anchor(heading)
    text = heading.gsub(/!?\[([^\]]*)\]\([^)]*\)/, '\1').gsub(/<[^>]*>/, "").delete("`*").strip
    text.downcase.gsub(/[^\p{L}\p{M}\p{N}\p{Pc}\- ]/, "").tr(" ", "-")
  end

  def initialize(text)
    @prose = without_code_blocks(text)
  end

  def links
    text = @prose.gsub(/(`+)(?!`).+?(?<!`)\1(?!`)/m) { |code| code.gsub(/[^\n]/, " ") }
    [INLINE, DEFINITION, HTML].flat_map do |pattern|
      text.to_enum(:scan, pattern).map { Link.new($~[1], text[0...$~.begin(0)].count("\n") + 1) }
    end.sort_by(&:line)
  end

  # A second heading of the same text gets -1 at its end, a third -2.
  def anchors
    counts = Hash.new(0)
    headings = @prose.scan(/^ {0,3}\#{1,6}[ \t]+(.+?)[ \t]*#*[ \t]*$/).map do |(text)|
      anchor = self.class.anchor(text)
      nth = counts[anchor]
      counts[anchor] += 1
      nth.zero? ? anchor : "#{anchor}-#{nth}"
    end
    headings + @prose.scan(OWN_ANCHOR).flatten
  end

  private

  # Lines of code become empty ones, so that the others keep their numbers.
  def without_code_blocks(text)
    fence = nil
    blank = true
    text.lines(chomp: true).map do |line|
      if fence
        fence = nil if line.strip.start_with?(fence) && line.strip.delete(fence[0]).empty?
        next ""
      end
      if (opened = line[/\A {0,3}(`{3,}|~{3,})/, 1])
        fence = opened
        next ""
      end
      next "" if blank && line.match?(/\A(?: {4}|\t)/)

      blank = line.strip.empty?
      line
    end.join("\n")
  end
end
