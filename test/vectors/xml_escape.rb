# frozen_string_literal: true

# Writes xml_escape.hex: what the gem builder makes of text and of values of attributes. `ruby test/vectors/xml_escape.rb`; what it writes
# depends on nothing else, so that a difference is a change of Builder or of this file.
require "builder"

PIECES = ["", "a", "&", "<", ">", "\"", "'", "\n", "\r", "\t", "\0", "\u007F", "\u00A0", "\u00E9", "\u20AC", "\u65E5", "\uD7FF", "\uE000", "\uFFFD",
          "\uFFFE", "\uFFFF", "\uFEFF", "\u{10000}", "\u{1F600}", "\u{10FFFF}"].freeze
# Not UTF-8: cut off, too long, surrogates, past the last character, bytes that never occur.
BROKEN = ["\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xC2", "\xE0\x80\x80", "\xE0\x9F\xBF", "\xE2\x82", "\xED\xA0\x80", "\xED\xBF\xBF", "\xF0\x80\x80\x80",
          "\xF0\x9F\x98", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFE", "\xFF"].freeze

random = Random.new(1)
texts = PIECES + BROKEN
texts += (1..0x1F).map { |code| [code].pack("U") } + (0x80..0x9F).map { |code| [code].pack("U") }
# An invalid byte anywhere turns the whole text into ISO-8859-1.
texts += BROKEN.flat_map { |odd| ["a#{odd}", "#{odd}a", "\u00E9#{odd}", "#{odd}&\u{1F600}\n\"\x95"] }
# At every place in and about the blocks that a scanner takes at once.
["&", "\"", "\r", "\0", "\u0085", "\uFFFF", "\u00E9", "\xFF"].each { |odd| [0, 1, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65].each { |at| texts << "#{"x" * at}#{odd}#{"y" * 20}" } }
texts += Array.new(150) { Array.new(1 + random.rand(9)) { PIECES[random.rand(PIECES.size)] }.join }
texts += Array.new(50) { Array.new(1 + random.rand(5)) { (PIECES + BROKEN)[random.rand(PIECES.size + BROKEN.size)].b }.join }

hex = ->(text) { text.empty? ? "-" : text.unpack1("H*") }
File.open(File.join(__dir__, "xml_escape.hex"), "w") do |file|
  file.puts "# kind, bytes, what Builder writes for them (hexadecimal, - for none). Made by xml_escape.rb."
  texts.map { |text| text.dup.force_encoding("UTF-8") }.uniq.each do |text|
    written = Builder::XmlMarkup.new.text!(text)
    element = Builder::XmlMarkup.new.a("b" => text)
    file.puts "text #{hex[text]} #{hex[written]}", "attribute #{hex[text]} #{hex[element.delete_prefix('<a b="').delete_suffix('"/>')]}"
  end
end
