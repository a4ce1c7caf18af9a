# frozen_string_literal: true

# Queries of ActiveRecord: in loops, of more rows and columns than are wanted, and without an index. The models are those of the seed's shop (Shop).
module Bench
  module Generated
    module Kinds
      add("belongs_to", "N+1 by belongs_to", says: "repeated_queries", bases: RECORDS) do |pick, shop|
        list = "#{shop.child}.order(:id).limit(#{pick.number(25..70)})"
        Weave.new(list: list, cured_list: list.sub(".order", ".includes(:#{shop.parent_name}).order"), row: "\"\#{row.#{shop.title}} \#{row.#{shop.parent_name}.name}\"")
      end

      add("has_many", "N+1 by has_many", says: "repeated_queries", bases: RECORDS) do |pick, shop|
        list = "#{shop.child}.where(\"id > ?\", number % 50).order(:id).limit(#{pick.number(25..60)})"
        Weave.new(list: list, cured_list: list.sub(".where", ".includes(:#{shop.leaf_name}s).where"), row: "\"\#{row.#{shop.title}} \#{row.#{shop.leaf_name}s.map(&:stars).max}\"")
      end

      add("polymorphic", "N+1 by a polymorphic association", says: "repeated_queries", bases: RECORDS) do |pick, _|
        list = "Note.order(:id).limit(#{pick.number(30..70)})"
        Weave.new(list: list, cured_list: list.sub(".order", ".includes(:subject).order"), row: "\"\#{row.text} \#{row.subject.id}\"")
      end

      add("counted", "a COUNT for each row", says: "repeated_queries", bases: RECORDS) do |pick, shop|
        list, key = "#{shop.child}.order(:id).limit(#{pick.number(25..70)})", "#{shop.child_name}_id"
        Weave.new(fault: "#{list}.map do |row|\n  \"\#{row.#{shop.title}} \#{row.#{shop.leaf_name}s.count}\" #!\nend.join(\", \")\n",
                  cure: "list = #{list}.to_a\ncounts = #{shop.leaf}.where(#{key}: list.map(&:id)).group(:#{key}).count\nlist.map { |row| \"\#{row.#{shop.title}} \#{counts[row.id].to_i}\" }.join(\", \")\n")
      end

      add("exists", "a query whether there is one for each row", says: "repeated_queries", bases: RECORDS) do |pick, shop|
        list, key = "#{shop.child}.order(:id).limit(#{pick.number(25..70)})", "#{shop.child_name}_id"
        Weave.new(fault: "#{list}.map do |row|\n  \"\#{row.#{shop.title}} \#{row.#{shop.leaf_name}s.where(stars: 5).#{pick.one(%w[exists? any?])} ? \"*\" : \"\"}\" #!\nend.join(\", \")\n",
                  cure: "list = #{list}.to_a\nthere = #{shop.leaf}.where(#{key}: list.map(&:id), stars: 5).distinct.pluck(:#{key})\nlist.map { |row| \"\#{row.#{shop.title}} \#{there.include?(row.id) ? \"*\" : \"\"}\" }.join(\", \")\n")
      end

      add("asked_again", "a row found again and again", says: "repeated_queries", bases: RECORDS) do |pick, shop|
        times, find = pick.number(40..120), "#{shop.parent}.find_by(name: \"nobody\")"
        find = "#{shop.parent}.where(\"id > 0\").maximum(:id)" if pick.chance?(50)
        Weave.new(fault: "(1..#{times}).map { |i| \"\#{i * number} \#{#{find}}\" }.join(\", \") #!\n", cure: "found = #{find}\n(1..#{times}).map { |i| \"\#{i * number} \#{found}\" }.join(\", \")\n")
      end

      add("index_filter", "no index for a filter", says: "missing_index", bases: RECORDS, group: :rows) do |pick, shop|
        Weave.new(sizes: { leaf: pick.number(90_000..150_000) }, fault: "#{shop.leaf}.where(#{shop.day}: number % 900).pluck(:stars).sum.to_s #!\n", slots: { indexes: ["", "CREATE INDEX by_filter ON #{shop.leaf_name}s (#{shop.day});\n"] })
      end

      add("index_order", "no index for ORDER BY with LIMIT", says: "missing_index", bases: RECORDS, group: :rows) do |pick, shop|
        Weave.new(sizes: { leaf: pick.number(90_000..150_000) }, fault: "#{shop.leaf}.order(#{shop.day}: :desc).limit(#{pick.number(5..20)}).sum(&:#{shop.day}).to_s #!\n",
                  slots: { indexes: ["", "CREATE INDEX by_order ON #{shop.leaf_name}s (#{shop.day});\n"] })
      end

      add("index_composite", "an index of one column where two are asked for", says: "missing_index", bases: RECORDS, group: :rows) do |pick, shop|
        Weave.new(sizes: { leaf: pick.number(120_000..200_000) }, fault: "#{shop.leaf}.where(state: \"open\", #{shop.day}: number % 900).pluck(:stars).sum.to_s #!\n",
                  slots: { indexes: ["CREATE INDEX of_state ON #{shop.leaf_name}s (state);\n", "CREATE INDEX of_state ON #{shop.leaf_name}s (state);\nCREATE INDEX by_both ON #{shop.leaf_name}s (state, #{shop.day});\n"] })
      end

      add("index_polymorphic", "no index for a polymorphic lookup", says: "missing_index", bases: RECORDS, group: :rows) do |pick, shop|
        Weave.new(sizes: { note: pick.number(60_000..100_000) }, fault: "Note.where(subject_type: \"#{shop.child}\", subject_id: (number % 40) + 1).pluck(:id).sum.to_s #!\n",
                  slots: { indexes: ["", "CREATE INDEX by_subject ON notes (subject_type, subject_id);\n"] })
      end

      add("rows_counted", "rows loaded only to be counted", says: %w[loaded_records], bases: RECORDS, group: :rows) do |pick, shop|
        # Counting would be quicker by an index, too: it is in both.
        Weave.new(fault: "#{shop.leaf}.where(state: \"open\").#{pick.one(%w[to_a.size to_a.length load.size map(&:id).size])}.to_s #!\n", cure: "#{shop.leaf}.where(state: \"open\").count.to_s\n",
                  slots: { indexes: Array.new(2, "CREATE INDEX of_state ON #{shop.leaf_name}s (state);\n") })
      end

      add("filtered_in_ruby", "rows loaded and filtered in Ruby", says: %w[loaded_records], bases: RECORDS, group: :rows) do |_, shop|
        Weave.new(fault: "#{shop.leaf}.all.select { |row| row.#{shop.day} == number % 900 }.size.to_s #!\n", cure: "#{shop.leaf}.where(#{shop.day}: number % 900).count.to_s\n",
                  sizes: { leaf: 6_000 }, slots: { indexes: Array.new(2, "CREATE INDEX of_day ON #{shop.leaf_name}s (#{shop.day});\n") })
      end

      add("wide_columns", "wide columns loaded for a list of titles", says: %w[loaded_records], bases: RECORDS) do |pick, shop|
        # No other page lists the rows with images.
        list = "#{shop.child}.where(\"id > 1000\").order(:id).limit(#{pick.number(90..150)})"
        Weave.new(sizes: { image: pick.number(30_000..60_000) }, fault: "#{list}.map(&:#{shop.title}).join(\", \") #!\n", cure: "#{list}.select(:id, :#{shop.title}).map(&:#{shop.title}).join(\", \")\n")
      end
    end
  end
end
