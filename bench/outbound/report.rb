# frozen_string_literal: true

# Writes what `bin/bench outbound` found, as Markdown and JSON.
require_relative "callers"
require_relative "ways"
require_relative "../lib/section_report"

module Bench
  # RESULTS: {section => the OutboundContest, OutboundPages or OutboundWorkers that ran}.
  class OutboundReport < SectionReport
    def kind = "outbound"

    def markdown
      [heading, *@results.map { |name, found| section(name, found) }, absent, setting].compact.join("\n\n") << "\n"
    end

    def data
      { **of_run, results: @results.transform_values(&:data), not_measured: missing }
    end

    private

    def heading
      <<~TEXT.strip
        # #{@command}

        #{about_run}

        A page makes #{OutboundCallers::CALLS} HTTPS calls, one after another but for `all` and `parallel`, each answered with 1 KB by nginx. Milliseconds for all #{OutboundCallers::CALLS};
        medians. First: a fresh process's first page; warm: those after it, with the least and the most. x floor: warm to `#{OutboundWays::FLOOR}`; times: so many times quicker than
        `#{OutboundWays::BASELINE}`; both medians of the rounds' ratios. CPU: ms that the Ruby process uses for a page, front: those of Paceline's front. Opened: connections, of the first
        page and of a warm one, as nginx counts them.
      TEXT
    end

    def section(name, found)
      [send({ "local" => :contest, "delayed" => :contest }.fetch(name, name), found), busy(found)].compact.join("\n\n")
    end

    def contest(found)
      head = ["way", "first", "CPU", "opened", "warm", "least", "most", "x floor", "times", "CPU", "front", "opened", "", ""]
      rows = found.rows.map do |row|
        next [row.way, *refused(row.wrong, 12), row.title] if row.wrong

        [row.way, ms(row.first_ms), ms(row.first_cpu), count(row.first_opened), ms(row.ms), ms(row.least), ms(row.most), factor(row.floor), factor(row.times), ms(row.cpu), ms(row.front),
         count(row.opened), row.versions.map { |version| version.delete_prefix("HTTP/").delete_suffix(".0") }.join(" "), row.title]
      end
      "## Calls #{found.place.title}\n\n#{found.rounds} round#{"s" if found.rounds > 1}, in each a fresh process for each way. The wire alone: #{ms(found.wire.connect)} ms to connect, " \
        "#{ms(found.wire.single)} ms for a single call of `#{OutboundWays::FLOOR}`.\n\n#{align(head, rows, texts: [0, 12, 13])}"
    end

    def pages(found)
      head = ["way", "newborn: page", "calls", "CPU", "opened", "warm: page", "calls", "CPU", "opened", "times", ""]
      rows = found.rows.map do |row|
        next [row.way, *refused(row.wrong, 9), row.title] if row.wrong

        [row.way, milliseconds(row.newborn), ms(row.newborn_calls), ms(row.newborn_cpu), count(row.newborn_opened), milliseconds(row.warm), ms(row.warm_calls), ms(row.warm_cpu), count(row.warm_opened),
         factor(row.times), row.title]
      end
      cold = found.cold_page
      "## Pages #{found.place.title}\n\nServed by Paceline, which is told SIGUSR1 each time; newborn: the first page of the new worker. Page: the whole request as its client sees it; " \
        "calls: those in it.#{" The first page after the front had started took #{ms(cold.calls_ms)} ms (#{cold.way})." if cold}\n\n#{align(head, rows, texts: [0, 10])}"
    end

    def workers(found)
      rows = found.rows.map do |row|
        next [row.way, *refused(row.wrong, 6), row.title] if row.wrong

        [row.way, rounded(row.calls), row.workers.to_s, rounded(row.opened), format("%.1f", row.seconds), ms(row.ms), row.versions.join(" "), row.title]
      end
      "## #{OutboundWorkers::WORKERS} workers #{found.place.title}\n\n#{OutboundWorkers::THREADS} threads each; #{OutboundWorkers::CLIENTS} clients ask for pages at once. ms a page: the median, as its client waits for it.\n\n" +
        align(["way", "calls", "workers", "connections", "s", "ms a page", "", ""], rows, texts: [0, 6, 7])
    end

    def busy(found)
      return if found.elsewhere.nil? || found.elsewhere < Table::QUIET

      "**Other work took #{found.elsewhere.round(1)} of #{@facts["processors"]} processors meanwhile: #{@options.realtime ? "caches were not the clients' own" : "don't rely on times"}.**"
    end

    def absent = "Not measured:\n\n#{missing.map { |what, why| "- #{what}: #{why}" }.join("\n")}"

    def missing
      OutboundWays::NOT_PACKAGED.merge(@results.flat_map { |section, found| found.absent.map { |name, why| ["#{section}, #{name}", why] } }.to_h)
    end

    def ms(number) = number ? format(number < 100 ? "%.1f" : "%.0f", number) : ""
    def count(number) = number ? format((number % 1).zero? ? "%d" : "%.1f", number) : ""
  end
end
