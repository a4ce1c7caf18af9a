# frozen_string_literal: true

# What the contests of `bin/bench tuning` amount to: ratios to the first way with as many threads, and of the first way with more threads to itself with the
# fewest. Measures nothing.
require_relative "../lib/summary"
require_relative "ways"

module Bench
  class TuningFound
    # A way with THREADS after the requests before memory is read; bytes.
    Memory = Struct.new(:app, :threads, :way, :boot, :worker, :worker_ratio, :proportional, keyword_init: true)

    # CONTESTS: {app => Contest}; WAYS: their texts; THREADS: numbers.
    def initialize(contests, ways, threads)
      @contests = contests
      @ways = ways
      @threads = threads
    end

    # Each page with each number of threads: a Summary::Group, whose rows are named by the ways' texts.
    def groups
      summaries.flat_map { |threads, summary| summary.groups.map { |group| titled(group, "#{threads_text(threads)}, #{group.shape}", threads) } }
    end

    # Each page: the first way with each number of threads.
    def threads
      return [] if @threads.size < 2

      names = @threads.sort.to_h { |count| [name(@ways.first, count), threads_text(count)] }
      summary = Summary.new(cells(names.keys), {}, order: names.keys, baseline: names.keys.first)
      summary.groups.map { |group| titled(group, group.shape.to_s, names) }
    end

    def memory
      summaries.flat_map do |threads, summary|
        titles = titles(threads)
        summary.footprints.flat_map do |app, footprints|
          footprints.map { |one| Memory.new(app: app.to_s, threads: threads, way: titles[one.server], **one.to_h.slice(:boot, :worker, :worker_ratio, :proportional)) }
        end
      end
    end

    # {"app, way" => why it has no figures}
    def absent
      titles = @threads.map { |count| titles(count) }.reduce(:merge)
      @contests.flat_map { |app, contest| contest.absent.map { |server, why| ["#{app}, #{server[/\At\d+/]}, #{titles[server]}", why] } }.to_h
    end

    private

    def name(way, threads) = TuningWay.new(way, threads).name

    # {server's name => way}
    def titles(threads) = @ways.to_h { |way| [name(way, threads), TuningWay.new(way, threads).title] }

    def threads_text(count) = "#{count} thread#{"s" if count > 1}"

    def summaries
      @summaries ||= @threads.to_h do |threads|
        names = titles(threads).keys
        started = @contests.transform_values { |contest| contest.started.slice(*names).transform_values { |one| [one] } }
        [threads, Summary.new(cells(names), started, order: names, baseline: names.first)]
      end
    end

    def cells(names) = @contests.values.flat_map(&:cells).select { |cell| names.include?(cell.server) }

    # TITLES: {server's name => title}, or the number of threads.
    def titled(group, load, titles)
      titles = titles(titles) if titles.is_a?(Integer)
      Summary::Group.new(scenario: group.scenario, shape: load, rows: group.rows.map { |row| row.dup.tap { |it| it.server = titles[row.server] } })
    end
  end
end
