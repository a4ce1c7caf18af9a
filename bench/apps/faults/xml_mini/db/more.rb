# storage/stock.xml, as a supplier sends it.
require "fileutils"

FileUtils.mkdir_p("storage")
books = Array.new(150) { |i| "  <book><title>Volume #{i} &amp; more</title><count type=\"integer\">#{i * 7 % 50}</count></book>\n" }
File.write("storage/stock.xml", "<?xml version=\"1.0\"?>\n<stock>\n#{books.join}</stock>\n")
