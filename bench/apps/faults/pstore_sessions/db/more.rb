# The sessions of 1,000 visitors.
require "fileutils"
require "pstore"

FileUtils.mkdir_p("storage")
PStore.new("storage/sessions.pstore").transaction do |sessions|
  1_000.times { |i| sessions["2::#{format("%064x", i)}"] = { "basket" => Array.new(20) { |book| { "book" => book, "count" => 1 } } } }
end
