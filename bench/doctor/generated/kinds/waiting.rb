# frozen_string_literal: true

# What a request waits for.
module Bench
  module Generated
    module Kinds
      add("sleep", "a sleep", says: "slow_line") do |pick|
        Weave.new(fault: "sleep #{format("%.3f", pick.number(10..40) / 1000.0)} #!\n\"waited for \#{number}\"\n", cure: "\"waited for \#{number}\"\n")
      end

      add("locked_wait", "a wait within a lock", says: "slow_line") do |pick|
        lock = pick.constant
        wait = "sleep #{format("%.3f", pick.number(12..35) / 1000.0)} #!\n"
        Weave.new(requires: %w[monitor], constants: "#{lock} = #{pick.one(%w[Mutex Monitor])}.new\n", fault: "#{lock}.synchronize do #!\n  #{wait}  number.to_s\nend\n", cure: "#{lock}.synchronize do\n  number.to_s\nend\n")
      end

      add("program", "a program that is run in each request", says: "slow_line") do |pick|
        file, constant, count = "data/#{pick.noun}.txt", pick.constant, pick.one(%w[count words size])
        run = pick.one(["`wc -w < \#{APP_ROOT}/#{file}`.to_i", "IO.popen([\"wc\", \"-w\", \"\#{APP_ROOT}/#{file}\"], &:read).to_i", "Open3.capture2(\"wc\", \"-w\", \"\#{APP_ROOT}/#{file}\").first.to_i"])
        Weave.new(requires: %w[open3], files: { file => "#{pick.phrase(4_000)}\n" }, fault: "#{count} = #{run} #!\n\"\#{#{count}} \#{number}\"\n", cure_constants: "#{constant} = #{run}\n", cure: "\"\#{#{constant}} \#{number}\"\n")
      end

      # Kept connections, so that only the order costs.
      add("serial_calls", "outbound calls one after another", says: "serial_calls") do |pick|
        count = pick.number(3..6)
        urls = "Array.new(#{count}) { |i| \"\#{ENV.fetch(\"FAULT_UPSTREAM\")}/slow/\#{i}\" }"
        Weave.new(requires: %w[json paceline/http], constants: "URLS = #{urls}.freeze\n", fault: "URLS.sum { |url| Paceline::HTTP.get(url).json[\"cents\"] }.to_s #!\n",
                  cure: "Paceline::HTTP.all { |calls| URLS.each { |url| calls.get(url) } }.sum { |answer| answer.json[\"cents\"] }.to_s\n")
      end

      add("cold_calls", "outbound calls that open a connection each", says: %w[cold_connections serial_calls]) do |pick|
        count, uri = pick.number(2..4), "URI(\"\#{ENV.fetch(\"FAULT_UPSTREAM\")}/prices/\#{i}\")"
        call = pick.one(["Net::HTTP.get(#{uri})", "#{uri}.open.read"])
        Weave.new(requires: %w[json net/http open-uri paceline/http], fault: "(1..#{count}).sum { |i| JSON.parse(#{call})[\"cents\"] }.to_s #!\n", slots: { startup: ["", "Paceline::HTTP.install!\n"] })
      end
    end
  end
end
