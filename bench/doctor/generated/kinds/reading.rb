# frozen_string_literal: true

# Files and times that are read in each request though they never change.
require "json"

module Bench
  module Generated
    module Kinds
      module_function

      def entries(pick, count) = Array.new(count) { |i| { "title" => pick.phrase(3), "cents" => 100 + (i * 37 % 4000), "section" => pick.one(Pick::WORDS) } }

      # FAULT reads the file in each request, CURE once.
      def read_once(pick, file, read, text, requires: [])
        all, constant = pick.variable, pick.constant
        give = ->(from) { "#{from}[number % #{from}.size].to_h.values_at(\"title\", \"cents\").join(\" \")\n" }
        Weave.new(requires: requires, files: { file => text }, fault: "#{all} = #{read} #!\n#{give[all]}", cure_constants: "#{constant} = #{read}\n", cure: give[constant])
      end

      add("yaml_file", "YAML read in each request", says: "slow_line") do |pick|
        file = "config/#{pick.noun}.yml"
        read = pick.one(["YAML.load_file(\"\#{APP_ROOT}/#{file}\")", "YAML.safe_load(File.read(\"\#{APP_ROOT}/#{file}\"))", "Psych.load_file(\"\#{APP_ROOT}/#{file}\")"])
        text = entries(pick, pick.number(250..700)).map { |row| "- title: #{row["title"]}\n  cents: #{row["cents"]}\n  section: #{row["section"]}\n" }.join
        read_once(pick, file, read, text, requires: %w[yaml])
      end

      add("json_file", "JSON read in each request", says: "slow_line") do |pick|
        file = "data/#{pick.noun}.json"
        read = pick.one(["JSON.parse(File.read(\"\#{APP_ROOT}/#{file}\"))", "JSON.load_file(\"\#{APP_ROOT}/#{file}\")"])
        read_once(pick, file, read, JSON.generate(entries(pick, pick.number(6_000..14_000))), requires: %w[json])
      end

      add("csv_file", "CSV read in each request", says: "slow_line") do |pick|
        file = "data/#{pick.noun}.csv"
        path = "\"\#{APP_ROOT}/#{file}\""
        read = pick.one(["CSV.read(#{path}, headers: true)", "CSV.parse(File.read(#{path}), headers: true)", "CSV.table(#{path}, header_converters: nil)"])
        text = +"title,cents,section\n"
        entries(pick, pick.number(500..1500)).each { |row| text << row.values_at("title", "cents", "section").join(",") << "\n" }
        read_once(pick, file, read, text, requires: %w[csv])
      end

      add("xml_file", "XML read by REXML in each request", says: "slow_line") do |pick|
        file, constant, variable = "data/#{pick.noun}.xml", pick.constant, pick.variable
        read = "REXML::Document.new(File.read(\"\#{APP_ROOT}/#{file}\"))"
        text = "<shop>#{Array.new(pick.number(120..350)) { |i| "<item id=\"#{i}\"><title>#{pick.phrase(3)}</title><cents>#{i * 7}</cents></item>" }.join}</shop>"
        give = ->(from) { "#{from}.root.elements[(number % 9) + 1].attributes[\"id\"]\n" }
        Weave.new(requires: %w[rexml/document], files: { file => text }, fault: "#{variable} = #{read} #!\n#{give[variable]}", cure_constants: "#{constant} = #{read}\n", cure: give[constant])
      end

      add("times", "times read from text in each request", says: "slow_line") do |pick|
        texts, times = pick.constant, pick.constant
        read = pick.one(["Time.parse(text)", "Time.strptime(text, \"%Y-%m-%d %H:%M:%S\")", "DateTime.parse(text)"])
        Weave.new(requires: %w[time date], constants: "#{texts} = Array.new(#{pick.number(600..1500)}) { |i| format(\"20%02d-%02d-%02d 10:%02d:00\", i % 25, (i % 12) + 1, (i % 28) + 1, i % 60) }.freeze\n",
                  fault: "#{texts}.map { |text| #{read} }.max.year.to_s #!\n", cure_constants: "#{times} = #{texts}.map { |text| #{read} }.freeze\n", cure: "#{times}.max.year.to_s\n")
      end

      add("load_code", "code loaded in each request", says: "slow_line") do |pick|
        name = pick.name
        file, mod = "config/#{name}.rb", Pick.class_name(name)
        count = pick.number(800..2000)
        rows = Array.new(count) { |i| "  def self.row_#{i} = \"#{pick.phrase(2)} #{i}\"\n" }.join
        text = "module #{mod}\n#{rows}  def self.of(number) = public_send(\"row_\#{number % #{count}}\")\nend\n"
        load = "load \"\#{APP_ROOT}/#{file}\""
        Weave.new(files: { file => text }, fault: "#{load} #!\n#{mod}.of(number)\n", cure_constants: "#{load}\n", cure: "#{mod}.of(number)\n")
      end

      add("folder", "a folder's files read in each request", says: "slow_line") do |pick|
        folder, constant, list = "data/#{pick.noun}", pick.constant, pick.variable
        read = "Dir.glob(\"\#{APP_ROOT}/#{folder}/*.txt\").sort.map { |path| File.read(path).lines.first }"
        Weave.new(files: Array.new(pick.number(200..400)) { |i| ["#{folder}/#{1000 + i}.txt", "#{pick.phrase(4)}\n#{pick.phrase(60)}\n"] }.to_h,
                  fault: "#{list} = #{read} #!\n#{list}[number % #{list}.size].strip\n", cure_constants: "#{constant} = #{read}\n", cure: "#{constant}[number % #{constant}.size].strip\n")
      end
    end
  end
end
