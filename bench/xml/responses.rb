# frozen_string_literal: true

# Whole responses of a small Rails application: by Paceline with Builder and with its own builder, and by Puma with Builder.
require_relative "../lib/apps"
require_relative "../lib/scenarios"
require_relative "../lib/servers"
require_relative "../lib/summary"
require_relative "../lib/visit"
require_relative "page"

module Bench
  class XmlResponses
    # What Visit wants to know.
    Settings = Struct.new(:connections, :seconds, :full, :warm_up, keyword_init: true)
    OURS = { "BENCH_XML" => "paceline" }.freeze
    BASELINE = "paceline, Builder"

    attr_reader :summary, :absent

    # The block is told of each step and whether a load is done.
    def initialize(options, &told)
      @options = options
      @told = told
      @absent = {}
      @settings = Settings.new(connections: [1, options.clients], seconds: [options.seconds, 1].max)
    end

    def steps = @options.rounds * ways.size * Documents::NAMES.size * 2

    def run
      cells = (1..@options.rounds).flat_map { |round| ways.flat_map { |server, app| visit(server, app, round) } }
      @summary = Summary.new(cells, {}, baseline: BASELINE)
      self
    end

    private

    # Pairs of a server and the application as it serves it.
    def ways
      @ways ||= begin
        paceline, puma = Servers.named(%w[paceline puma])
        [[named(paceline, BASELINE), app({})], [named(paceline, "paceline, its builder"), app(OURS)], [named(puma, "puma, Builder"), app({})]]
      end
    end

    def named(server, name) = server.dup.tap { |it| it.name = name }

    def app(environment) = App.new(name: :xml, directory: XmlPage::APP, environment: environment)

    # The same answers are expected from all of them.
    def scenarios
      @scenarios ||= Documents::NAMES.map do |name|
        Scenarios.new(name, name, :xml, [Kind.new(name, "/documents/#{name}.xml", contains: "<?xml")], warm_up: 100)
      end
    end

    def visit(server, app, round)
      return [] if @absent.key?(server.name)

      Visit.new(server, app, scenarios, @settings) { |what, done| @told.call("round #{round}, #{server.name}: #{what}", done) }.run(round)
    rescue RunningServer::Failed, Errno::ENOENT => e
      @absent[server.name] = e.message.lines.first.strip
      []
    end
  end
end
