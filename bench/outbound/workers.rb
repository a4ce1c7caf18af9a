# frozen_string_literal: true

# Ten thousand calls over eight workers: how many connections does the upstream see?
require_relative "../lib/arithmetic"
require_relative "callers"
require_relative "scene"

module Bench
  class OutboundWorkers
    WAYS = %w[persistent install get-h1 all].freeze
    WORKERS = 8
    THREADS = 2
    # CALLS at least, of pages that CLIENTS ask for at once.
    CLIENTS = 16
    # MS: the median page's, as its client sees it.
    Row = Struct.new(:way, :title, :calls, :seconds, :ms, :opened, :workers, :versions, :wrong, keyword_init: true)

    attr_reader :absent, :elsewhere, :place, :rows

    def initialize(place, ways, processes, calls:, &told)
      @place = place
      @ways = ways
      @calls = calls
      @scene = OutboundScene.new(place, processes)
      @told = told
      @rows = []
      @absent = {}
    end

    def steps = @ways.size

    # A server of its own for each way, so that each begins without connections.
    def run
      @elsewhere = @scene.run do
        @ways.each do |way|
          @scene.serving(workers: WORKERS, threads: THREADS) { |server| @rows << row(way, server) }
          @told.call("#{way.name}: #{@rows.last.opened} connections", true)
        rescue RunningServer::Failed, OutboundUpstream::Failed => e
          @absent[way.name] = e.message.lines.first.strip
          @told.call("#{way.name}: #{@absent[way.name]}", true)
        end
      end
      self
    end

    def data = { place: @place.title, workers: WORKERS, threads: THREADS, clients: CLIENTS, elsewhere: @elsewhere, rows: @rows.map { |row| row.to_h.compact } }

    private

    def row(way, server)
      pages = (@calls.to_f / OutboundCallers::CALLS).ceil
      began = now
      served, seen = @scene.upstream.watching(pages * OutboundCallers::CALLS) { ask(way, server, pages) }
      took = now - began
      answers = served.map(&:answer)
      Row.new(way: way.name, title: way.title, calls: seen.calls, seconds: took, ms: Arithmetic.median(served.map(&:seconds)) * 1000, opened: seen.opened,
              workers: answers.map { |answer| answer["pid"] }.uniq.size, versions: seen.versions.keys.sort, wrong: OutboundCallers.wrongs(answers) { |answer| answer["wrong"] })
    end

    def ask(way, server, pages)
      left = Thread::Queue.new(Array.new(pages))
      left.close
      clients = Array.new(CLIENTS) do
        Thread.new do
          Thread.current.report_on_exception = false
          [].tap { |served| served << server.page(way) while take(left) }
        end
      end
      clients.flat_map(&:value)
    end

    def take(left)
      return false if left.empty?

      left.pop(true)
      true
    rescue ThreadError # another took the last one
      false
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
