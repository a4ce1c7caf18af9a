# frozen_string_literal: true

# The database of a generated application: three models in a row and a polymorphic one, by other names for each seed. Makes text only.
module Bench
  module Generated
    class Shop
      CASTS = [%w[author book review], %w[brewer beer rating], %w[team player goal], %w[studio film ticket], %w[garden plant harvest], %w[school course lesson], %w[artist record concert]].freeze
      SIZES = { parent: 300, child: 1500, leaf: 9_000, note: 600, image: 0 }.freeze

      attr_reader :parent_name, :child_name, :leaf_name, :title, :day, :database

      # DATABASE: a Sqlite or Postgresql. SIZES: more rows than usual.
      def initialize(pick, database)
        @database = database
        @parent_name, @child_name, @leaf_name = pick.one(CASTS)
        @title = pick.one(%w[title label caption])
        @day = pick.one(%w[day week batch])
        @sizes = SIZES.dup
        @indexed = %w[parent leaf note]
      end

      def parent = Pick.class_name(parent_name)
      def child = Pick.class_name(child_name)
      def leaf = Pick.class_name(leaf_name)
      def enlarge(sizes) = @sizes.merge!(sizes.to_h) { |_, one, other| [one, other].max }
      # Only where nothing is to be found without it.
      def note_index? = @sizes[:note] <= SIZES[:note]

      # {class => its body}
      def models
        { parent => "has_many :#{child_name}s\n",
          child => "belongs_to :#{parent_name}\nhas_many :#{leaf_name}s\nhas_many :notes, as: :subject\n",
          leaf => "belongs_to :#{child_name}\n",
          "Note" => "belongs_to :subject, polymorphic: true\n" }
      end

      # What an `includes` may name: [model, association].
      def associations
        [[parent, "#{child_name}s"], [child, parent_name], [child, "#{leaf_name}s"], [child, "notes"], [leaf, child_name], %w[Note subject]]
      end

      def structure
        database.sql(<<~SQL)
          CREATE TABLE #{parent_name}s (id INTEGER PRIMARY KEY, name VARCHAR NOT NULL);
          CREATE TABLE #{child_name}s (id INTEGER PRIMARY KEY, #{parent_name}_id INTEGER NOT NULL, #{title} VARCHAR NOT NULL, cents INTEGER NOT NULL, summary TEXT NOT NULL, image TEXT, updated_at DATETIME NOT NULL);
          CREATE TABLE #{leaf_name}s (id INTEGER PRIMARY KEY, #{child_name}_id INTEGER NOT NULL, stars INTEGER NOT NULL, state VARCHAR NOT NULL, #{day} INTEGER NOT NULL);
          CREATE TABLE notes (id INTEGER PRIMARY KEY, subject_type VARCHAR NOT NULL, subject_id INTEGER NOT NULL, text VARCHAR NOT NULL);
        SQL
      end

      def indexes
        "CREATE INDEX of_parent ON #{child_name}s (#{parent_name}_id);\nCREATE INDEX of_child ON #{leaf_name}s (#{child_name}_id);\n#{"CREATE INDEX of_subject ON notes (subject_type, subject_id);\n" if note_index?}"
      end

      # Makes the database, the same bytes each time.
      def preparation
        <<~RUBY
          random = Random.new(7)
          words = %w[#{Pick::WORDS.join(" ")}]
          text = ->(count) { Array.new(count) { words[random.rand(words.size)] }.join(" ") }
          #{database.opening.chomp}
          run[File.read("db/structure.sql")]
          #{database.insert.chomp}
          database.transaction do
            insert.call("#{parent_name}s", #{@sizes[:parent]}, 2) { [text[2]] }
            insert.call("#{child_name}s", #{@sizes[:child]}, 7) { |i| [(i * 7 % #{@sizes[:parent]}) + 1, text[3], 500 + random.rand(4_000), text[60], i.between?(1_000, 1_160) ? "x" * #{@sizes[:image]} : nil, "2026-01-01 00:00:00"] }
            insert.call("#{leaf_name}s", #{@sizes[:leaf]}, 5) { |i| [(i % #{@sizes[:child]}) + 1, random.rand(1..5), %w[open closed late lost][i % 4], random.rand(900)] }
            insert.call("notes", #{@sizes[:note]}, 4) { |i| [%w[#{child} #{parent}][i % 2], (i * 11 % #{@sizes[:parent]}) + 1, text[2]] }
          end
          run[File.read("db/indexes.sql")]
          run["ANALYZE"]
          database.close
        RUBY
      end
    end
  end
end
