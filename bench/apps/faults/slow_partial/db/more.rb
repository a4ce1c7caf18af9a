# storage/shelves.json: which shelf has which books of a subject.
require "fileutils"
require "json"

FileUtils.mkdir_p("storage")
plan = %w[history music gardening poetry travel chess cooking physics].to_h { |subject| [subject, Array.new(480) { |i| "#{subject[0].upcase}#{i * 7 % 480}" }] }
File.write("storage/shelves.json", JSON.generate(plan))
