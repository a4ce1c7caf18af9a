# frozen_string_literal: true

require "paceline/pstore"

# A process with a store, which does what it is told by lines and answers each with one: for tests that fail the system under it.
#   ruby worker.rb FILE FORMAT ULTRA_SAFE(0 or 1)
file, format, ultra_safe = ARGV
store = Paceline::PStore.new(file, format: format.to_sym)
store.ultra_safe = ultra_safe == "1"
$stdout.sync = true

$stdin.each_line(chomp: true) do |line|
  answer = case line
           when "add"
             # Several pages, and a value on pages of its own.
             store.transaction do |s|
               count = s[:count] = (s[:count] || 0) + 1
               20.times { |i| s["part #{i}"] = [count, "x" * 300] }
               s[:large] = [count, count.to_s * 5000]
               count
             end
           when "read" then store.transaction(true) { |s| [s[:count], *20.times.map { |i| s["part #{i}"]&.first }, s[:large]&.first].uniq.inspect }
           when "close" then Paceline::Records.at(file).close
           end
  puts "ok #{answer}"
rescue StandardError => e
  puts "#{e.class} #{e.message}".lines.first
end
