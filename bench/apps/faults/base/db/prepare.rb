# Makes db/production.sqlite3, the same bytes each time. Run in the application's folder.
require "sqlite3"

AUTHORS = 300
BOOKS = 2_000
RATINGS = 100_000
SUBJECTS = %w[history music gardening poetry travel chess cooking physics].freeze
WORDS = %w[amber birch cedar delta ember fjord grove heath inlet juniper kelp larch meadow north orchard pine quay reed slate tide].freeze

path = File.join(Dir.pwd, "db/production.sqlite3")
File.delete(path) if File.exist?(path)
random = Random.new(23)
words = ->(count) { Array.new(count) { WORDS[random.rand(WORDS.size)] }.join(" ") }

database = SQLite3::Database.new(path)
# Rails from 7.1 on sets this by itself, which would change the file at the first request.
database.execute("PRAGMA journal_mode = WAL") if Gem::Specification.find_by_name("activerecord").version >= Gem::Version.new("7.1")
database.execute_batch(File.read("db/structure.sql"))
database.transaction do
  AUTHORS.times { |i| database.execute("INSERT INTO authors VALUES (?, ?)", [i + 1, words[2].split.map(&:capitalize).join(" ")]) }
  BOOKS.times do |i|
    database.execute("INSERT INTO books VALUES (?, ?, ?, ?, ?, ?)",
                     [i + 1, (i * 7 % AUTHORS) + 1, words[3].capitalize, SUBJECTS[random.rand(SUBJECTS.size)], 500 + random.rand(4_000), words[80]])
  end
  RATINGS.times { |i| database.execute("INSERT INTO ratings VALUES (?, ?, ?)", [i + 1, random.rand(BOOKS) + 1, random.rand(1..5)]) }
end
database.execute_batch(File.read("db/indexes.sql"))
database.execute("ANALYZE")
database.close
