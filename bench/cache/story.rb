# frozen_string_literal: true

# Redmine's front page for one session, kept by the stubborn rule, while its author works in a session of his own.
require_relative "sections"

module Bench
  class CacheStory < CacheSection
    SHAPES = [Shape.new(25, true), Shape.new(25, false)].freeze
    PAGE = "/"
    # The author's rounds through Redmine without load; so many of those beside it are waited for.
    CYCLES = 10
    ALONE = "puma alone"

    # IDLE and BUSY are results of RedmineAuthor.
    Author = Struct.new(:server, :idle, :busy, keyword_init: true)

    # ABSENT: {server => why it was not measured, or not to its end}.
    attr_reader :authors, :absent

    # ALONE: names of servers besides Puma that serve Redmine without a cache.
    def initialize(processes, options, shapes: SHAPES, alone: [], &told)
      super(processes, options, &told)
      @shapes = shapes
      @alone = alone
      @absent = {}
    end

    def loads = @options.rounds * @shapes.size * names.size

    def run
      @authors = []
      @app = Apps.prepare(:redmine)
      cells = (1..@options.rounds).flat_map do |round|
        names.flat_map { |name| attempt(name) { stacked(name) { |running| visit(running, name, round) } } }
      end
      Summary.new(cells, {}, baseline: ALONE)
    end

    private

    def names
      ["paceline", "nginx", "varnish", ALONE, "paceline, page cache off", *@alone.map { |name| alone(name) }].select do |name|
        [ALONE].include?(name) || @options.servers.nil? || @options.servers.any? { |chosen| name.start_with?(chosen) }
      end
    end

    # One that fails is left out from then on.
    def attempt(name)
      @absent.key?(name) ? [] : yield
    rescue RunningServer::Failed, SystemCallError => e
      @absent[name] = e.message.lines.first.strip
      @told.call("#{name}: not measured: #{@absent[name]}", false)
      []
    end

    def stacked(name, &block)
      case name
      when "paceline" then serving(Caches.paceline_with_app(name, Caches::RULE, "with the rule"), @app, PAGE, &block)
      when "paceline, page cache off" then serving(Caches.paceline_with_app(name, "page_cache = false\n", "no page cache"), @app, PAGE, &block)
      when ALONE, *@alone.map { |one| alone(one) } then serving(served_alone(name), @app, PAGE, &block)
      else behind(puma, @app, PAGE) { |app| serving(Caches.with_rule(app.port).find { |server| server.name == name }, @app, PAGE, &block) }
      end
    end

    def puma = served_alone(ALONE)
    def alone(name) = "#{name} alone"
    def served_alone(name) = Servers.named([name.delete_suffix(" alone")])[0].dup.tap { |server| server.name = name }

    def account = File.join(@app.directory, "account.json")

    def visit(running, name, round)
      cookie = RedmineAuthor.session(running.port, account)
      cached = running.server.hit && !name.end_with?("off")
      return @shapes.map { |shape| measure(running, shape, round, cookie, @options.requests / 100) } unless cached

      # Of Paceline, as of the others, the cache alone is measured; the author's requests to Redmine would be counted otherwise.
      @processes.own(*(name == "paceline" ? @processes.children(running.pid) : [])) { with_author(running, name, round, cookie) }
    end

    def with_author(running, name, round, cookie)
      check(running, cookie)
      idle = author(running, cycles: CYCLES) { nil }
      cells = []
      busy = author(running) do
        began = Measurement.now
        # The loads of a fast cache are over before the author has been through.
        until cells.any? && Measurement.now - began > @options.seconds * 3
          @shapes.each { |shape| cells << measure(running, shape, round, cookie, @options.requests, counts: cells.size < @shapes.size) }
        end
      end
      check(running, cookie)
      @authors << Author.new(server: name, idle: idle, busy: busy)
      cells
    end

    # The session's own page comes, and from the cache.
    def check(running, cookie)
      answers = Array.new(3) { Net::HTTP.start("127.0.0.1", running.port) { |http| http.get(PAGE, "Cookie" => cookie, "Accept-Encoding" => "identity") } }
      raise RunningServer::Failed, "#{running.server.name}: not the session's page" unless answers.all? { |answer| answer.body.include?("loggedas") }

      name, rule = running.server.hit
      raise RunningServer::Failed, "#{running.server.name}: no hit: #{answers.last.to_hash}" unless Caches.hit?(rule, answers.last[name].to_s)
    end

    def author(running, cycles: nil)
      result = RedmineAuthor.new(running.port, account).in_child(cycles: cycles) { |pid| @processes.own(pid) { yield } }
      @told.call("#{running.server.name}: the author was through #{result.cycles} times, #{result.stale.size} pages stale#{", failed: #{result.failure}" if result.failure}", false)
      result
    end

    def measure(running, shape, round, cookie, requests, counts: true)
      load = Load.new(port: running.port, mix: [[Kind.new("redmine", PAGE), 1.0]], connections: shape.connections, keep_alive: shape.keep_alive, count: requests,
                      fields: ["Cookie: #{cookie}"], percentiles: true)
      cell(running.server, "redmine", shape, round, load, counts: counts)
    end
  end
end
