# frozen_string_literal: true

# Writes what `bin/bench cache` found, as Markdown and JSON.
require_relative "../lib/arithmetic"
require_relative "../lib/section_report"

module Bench
  # RESULTS: {section => [what its `run` gave, the section]}; nil and the reason instead, when it was not measured.
  class CacheReport < SectionReport
    def kind = "cache"

    def markdown
      parts = @results.map { |name, (found, section)| found ? send(name, found, section) : "## #{name}\n\nNot measured: #{section}" }
      [heading, disturbed(@results.values.filter_map { |(summary), _| summary&.groups }.flatten, @facts["processors"]), *parts, setting].compact.join("\n\n") << "\n"
    end

    def data
      { command: @command, seconds: @clock.seconds.round, machine: @facts, versions: @versions, rounds: @options.rounds, seconds_per_load: @options.seconds,
        results: @results.to_h { |name, (found, section)| [name, found ? sums(name, found, section) : { not_measured: section }] } }
    end

    # How much slower each request was than the median of its kind without load: {median:, worst:, idle_worst:}. TIMES are {step => [seconds]}.
    def self.slowdown(idle, busy)
      medians = idle.transform_values { |times| Arithmetic.median(times) }
      steps = busy.filter_map { |step, times| Arithmetic.ratio(Arithmetic.median(times), medians[step]) }
      worst = ->(all) { all.flat_map { |step, times| times.filter_map { |time| Arithmetic.ratio(time, medians[step]) } }.max }
      { median: Arithmetic.median(steps), worst_step: steps.max, worst: worst[busy], idle_worst: worst[idle] }
    end

    private

    def heading
      <<~TEXT.strip
        # #{@command}

        #{about_run("#{@options.rounds} round#{"s" if @options.rounds > 1} of #{@options.seconds} s")}

        Medians. CPU: µs a request in all of the server's processes; of the application behind a cache none. Load before: #{@facts["load_before"].join(" ")}.
      TEXT
    end

    def hits(summary, _)
      "## Hits\n\nRatios (x) to nginx. None of these requests reached the origin.\n\n" + loads(summary)
    end

    def misses(summary, _)
      rows = summary.groups.select { |group| group.scenario == CacheBesideMisses::ALONE }.flat_map do |alone|
        beside = summary.groups.find { |group| group.scenario == CacheBesideMisses::BESIDE && group.shape == alone.shape }
        alone.rows.map do |row|
          other = beside.rows.find { |one| one.server == row.server }
          [alone.shape.to_s, row.server, *[row, other].flat_map { |one| one.wrong ? refused(one.wrong, 3) : [rounded(one.rate), milliseconds(one.p50), milliseconds(one.p99)] },
           factor(Arithmetic.ratio(other.p99, row.p99))]
        end
      end
      "## Hits beside misses\n\nMeanwhile #{CacheBesideMisses::CLIENTS} other clients ask for a page that takes 5 ms and may not be kept.\n\n" +
        align(["hits by", "server", "alone/s", "p50 ms", "p99 ms", "beside/s", "p50 ms", "p99 ms", "p99 x"], rows, texts: [0, 1])
    end

    def keys((summary, memory), _)
      base = summary.groups.first&.rows&.first
      rows = summary.groups.map do |group|
        row = group.rows.first
        next [group.scenario, *refused(row.wrong, 6), ""] if row.wrong

        [group.scenario, rounded(row.rate), milliseconds(row.p50), milliseconds(row.p99), rounded(row.cpu), factor(Arithmetic.ratio(row.cpu, base.cpu)),
         rounded(memory[group.scenario.to_i]), noted(row)]
      end
      "## Hits among many keys\n\n1 KB each, drawn at random, #{CacheKeys::SHAPE}. Memory: the server's private dirty, beyond that at the start, for each key.\n\n" +
        align(["kept", "requests/s", "p50 ms", "p99 ms", "CPU µs", "x", "bytes a key", ""], rows, texts: [0, 7])
    end

    def redmine(summary, section)
      "## Redmine by the stubborn rule\n\n#{@options.requests} requests by 25 clients for #{CacheStory::PAGE} of one session. Ratios (x) to Puma alone.\n\n#{loads(summary)}\n\n" \
        "Its author works in a session of his own meanwhile. x: a request's time by the median of its kind without load.\n\n#{authors(section.authors)}" \
        "#{section.absent.map { |name, why| "\n\nNot measured: #{name}: #{why}" }.join}"
    end

    def auto(summary, _)
      rows = summary.groups.flat_map do |group|
        group.rows.map { |row| [group.scenario, *(row.wrong ? [row.server, *refused(row.wrong, 7)] : auto_figures(row))] }
      end
      "## Hits of the automatic page cache\n\nThe same page of one application, #{CacheAuto::SHAPE}. Ratios (x) to the page cache. System calls and context switches: in all processes, in a pass of their own.\n\n" +
        align(["", "hits of", "requests/s", "CPU µs", "x", "from to", "system calls", "switches", ""], rows, texts: [0, 1, 8])
    end

    def counted(row) = [row.calls, row.switches].map { |figure| figure ? format("%.2f", figure) : "not counted" }

    def auto_figures(row)
      [row.server, rounded(row.rate), format("%.1f", row.cpu), factor(row.cpu_ratio), row.cpu_spread&.map { |one| factor(one) }&.join(" to ").to_s,
       *counted(row), noted(row)]
    end

    def watch(summary, section)
      rows = summary.groups.flat_map do |group|
        group.rows.map do |row|
          next [row.server, *refused(row.wrong, 6), ""] if row.wrong

          [row.server, rounded(row.rate), rounded(row.cpu), row.cpu_ratio ? format("%.3f", row.cpu_ratio) : "", row.cpu_spread&.map { |one| format("%.3f", one) }&.join(" to ").to_s,
           *counted(row), noted(row)]
        end
      end
      watched = section.shares.map { |share| (share * 100).round(1) }
      "## Redmine, watched\n\n#{CacheWatch::PAGE} for one session, #{CacheWatch::SHAPE}; the application answers each request. Ratios (x) to `mode = \"off\"`, whose twin shows how far two " \
        "servers that are alike are apart. All run at the same time, started afresh for each round, and get #{CacheWatch::BURST} requests in turn. Of the requests #{watched.minmax.join(" to ")} % were watched, #{(watched.sum / watched.size).round(1)} % on average. " \
        "System calls and context switches: in all processes, in a pass of their own.\n\n" +
        align(["auto_cache", "requests/s", "CPU µs", "x", "from to", "system calls", "switches", ""], rows, texts: [0, 7])
    end

    def authors(all)
      rows = all.group_by(&:server).map do |server, rounds|
        idle, busy = %i[idle busy].map { |which| together(rounds.map(&which)) }
        slow = self.class.slowdown(idle, busy)
        failures = rounds.flat_map { |round| [round.idle, round.busy] }.filter_map(&:failure).uniq
        next [server, *refused(failures.join("; "), 9)] if failures.any?

        [server, busy.values.sum(&:size).to_s, milliseconds(Arithmetic.median(idle.values.flatten)), milliseconds(Arithmetic.median(busy.values.flatten)),
         factor(slow[:median]), factor(slow[:worst_step]), factor(slow[:worst]), factor(slow[:idle_worst]),
         *%i[idle busy].map { |which| rounds.sum { |round| round[which].stale.size }.to_s }]
      end
      align(["server", "requests", "idle p50 ms", "busy p50 ms", "x", "worst step x", "worst x", "worst x idle", "stale idle", "stale busy"], rows, texts: [0])
    end

    def together(results)
      results.each_with_object({}) { |result, all| result.times.each { |step, times| (all[step] ||= []).concat(times) } }
    end

    def loads(summary)
      rows = summary.groups.flat_map do |group|
        group.rows.each_with_index.map { |row, i| [i.zero? ? group.scenario : "", i.zero? ? group.shape.to_s : "", *figures(row)] }
      end
      align(["", "load", "server", "requests/s", "x", "p50 ms", "p99 ms", "CPU µs", "x", ""], rows, texts: [0, 1, 2, 9])
    end

    def figures(row)
      return [row.server, *refused(row.wrong, 6), ""] if row.wrong

      [row.server, rounded(row.rate), factor(row.rate_ratio), milliseconds(row.p50), milliseconds(row.p99), rounded(row.cpu), factor(row.cpu_ratio), noted(row)]
    end

    def noted(row)
      notes = ["generator #{(row.generator_busy * 100).round} % busy"]
      notes << "#{row.elsewhere.round(1)} processors busy elsewhere" if row.elsewhere > QUIET
      notes.join(", ")
    end

    def setting
      "Versions: #{@versions.map { |name, version| [name, version].join(" ") }.join(", ")}. #{@facts["ruby"]}, Linux #{@facts["kernel"]}, #{@facts["memory_mb"]} MB."
    end

    def sums(name, found, section)
      summary, memory = found
      all = { loads: summary.groups.map { |group| { scenario: group.scenario, load: group.shape.to_s, servers: group.rows.map { |row| row.to_h.compact } } } }
      all[:bytes_a_key] = memory if memory
      all[:authors] = section.authors.map { |one| { server: one.server, **self.class.slowdown(one.idle.times, one.busy.times), idle: one.idle.to_h, busy: one.busy.to_h } } if name == "redmine"
      all
    end
  end
end
