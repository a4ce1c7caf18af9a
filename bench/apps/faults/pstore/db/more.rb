# The wish lists of 2,000 customers.
require "fileutils"
require "pstore"

FileUtils.mkdir_p("storage")
PStore.new("storage/wishes.pstore").transaction do |lists|
  2_000.times { |i| lists["customer-#{i}"] = Array.new(12) { |wish| "book #{(i * 31) + wish}" } }
end
