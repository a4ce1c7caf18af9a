# frozen_string_literal: true

# What writes pages, and settings of the whole application that make that slow.
module Bench
  module Generated
    module Kinds
      CACHE = "  config.cache_store = :memory_store, { size: 32 << 20 }\n"

      add("costly_partial", "a partial that is costly and not kept", says: %w[slow_partial slow_line], bases: RAILS) do |pick, shop|
        name, list = pick.noun, "#{shop.child}.order(:id).limit(#{pick.number(30..60)})"
        text = "<% words = row.summary.split.map { |word| word.capitalize } %>\n<p><b><%= row.#{shop.title} %></b> <%= words.tally.sort_by { |word, count| [-count, word] }.map { |word, count| \"\#{word} \#{count}\" }.join(\", \") %>\n" \
               "<% words.each_slice(8) do |some| %><span title=\"<%= some.join(\" \") %>\"><%= truncate(some.join(\" \"), length: 30) %></span><% end %></p>\n"
        Weave.new(view: "<%= render partial: \"shared/#{name}\", collection: #{list}, as: :row %>\n", partials: { "fault" => text.gsub(/$(?=\n)/, "<%#!%>"), "clean" => "<% cache(row) do %>\n#{text}<% end %>\n", name: name },
                  slots: { environment: [CACHE, CACHE] })
      end

      add("fragments_off", "perform_caching is off", says: "fragments_not_kept", bases: RAILS, anywhere: true, group: :settings) do |pick, shop|
        Weave.new(view: "<% cache(\"#{pick.noun}\") do %><ul>\n<% #{shop.child}.order(:id).limit(#{pick.number(80..160)}).each do |row| %><li><%= link_to row.#{shop.title}, \"/#{pick.noun}/\#{row.id}\" %> <%= number_to_currency(row.cents / 100.0) %></li>\n<% end %></ul><% end %>\n",
                  slots: { environment: %w[false true].map { |value| "#{CACHE}  config.action_controller.perform_caching = #{value}\n" } })
      end

      add("debug_log", "log level debug in production", says: "debug_log", bases: RAILS, anywhere: true, group: :settings) do |pick, shop|
        count = pick.number(300..700)
        Weave.new(fault: "#{shop.child}.order(:id).limit(60).sum do |row|\n  #{count / 60}.times { |i| Rails.logger.debug(\"\#{row.#{shop.title}} after \#{i} steps: \#{row.cents - i}\") }\n  row.cents\nend.to_s\n",
                  slots: { environment: ["  config.log_level = :debug\n", "  config.log_level = :info\n"] })
      end

      add("file_store", "Rails.cache in a file for each entry", says: "cache_store", bases: RAILS, anywhere: true, group: :settings) do |pick, _|
        key = pick.noun
        sum = "(1..#{pick.number(100..200)}).sum { |i| Rails.cache.fetch(\"#{key}/\#{i}\") { i * 7 } }"
        # The application has been open for a while.
        Weave.new(fault: "#{sum}.to_s\n", files: { "db/more.rb" => "ENV[\"RAILS_ENV\"] ||= \"production\"\nrequire File.join(Dir.pwd, \"config/environment\")\n#{sum}\n" },
                  slots: { environment: ["  config.cache_store = :file_store, Rails.root.join(\"tmp/cache/files\").to_s\n", "  config.cache_store = :paceline_file_store, Rails.root.join(\"tmp/cache.paceline\").to_s, { size: 64 << 20 }\n"] })
      end

      add("reloading", "code is reloaded in production", says: "code_reloading", bases: RAILS, anywhere: true, group: :settings) do |_, shop|
        Weave.new(fault: "#{shop.child}.order(:id).limit(5).map(&:#{shop.title}).join(\", \")\n", slots: { environment: ["  config.cache_classes = false\n  config.eager_load = false\n", "  config.cache_classes = true\n  config.eager_load = true\n"] })
      end

      add("uncompressed", "a big page is sent uncompressed", says: "uncompressed_pages", anywhere: true, group: :settings, measure: "first_view") do |pick, _|
        Weave.new(constants: table("ROWS", pick.number(300..700)), fault: "ROWS.map { |row| \"\#{row[:title]} \#{row[:cents]} \#{number}\" }.join(\", \")\n", slots: { toml: ["compress = false\n", "compress = true\n"] })
      end

      add("builder", "XML by Builder", says: "builder_xml") do |pick, _|
        rows = pick.constant
        Weave.new(requires: %w[builder paceline/xml], constants: table(rows, pick.number(120..300)), fault: <<~RUBY, slots: { startup: ["", "require \"paceline/xml\"\nPaceline::XML.replace_builder!\n"] })
          xml = Builder::XmlMarkup.new
          xml.instruct!
          xml.#{pick.noun}s do #!
            #{rows}.each do |row| #!
              xml.item(price: row[:cents], number: number) do #!
                xml.title row[:title] #!
                xml.link rel: "self", href: "/items/\#{row[:cents]}" #!
              end
            end
          end
          xml.target! #!
        RUBY
      end

      add("whole_json", "JSON of whole records", says: "whole_records", bases: RECORDS, same: false) do |pick, shop|
        list = "#{shop.child}.order(:id).limit(#{pick.number(80..200)})"
        Weave.new(requires: %w[json], fault: "#{pick.one(["#{list}.to_json", "#{list}.as_json.to_json", "JSON.generate(#{list}.as_json)"])} #!\n", cure: "#{list}.select(:id, :#{shop.title}).as_json(only: %i[id #{shop.title}]).to_json\n")
      end
    end
  end
end
