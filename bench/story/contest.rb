# frozen_string_literal: true

# A section of a story in which servers, or one server in several ways, take turns under the same loads: a Contest, each of whose loads becomes a part.
require_relative "../lib/apps"
require_relative "../lib/summary"
require_relative "../serve/contest"
require_relative "figures"

module Bench
  class StoryContest
    # {way => why it was not run}
    attr_reader :absent

    # APP: a proc that prepares it, called only when it is measured. ENTRIES as Contest has them. MAIN: the figure of its charts. PROBE: as Contest has it;
    # MORE: gives further figures of a server and a scenario when all has run.
    def initialize(setting, app:, entries:, baseline:, main: "rate", note: nil, probe: nil, more: nil, &told)
      @setting = setting
      @app = app
      @entries = entries
      @baseline = baseline
      @main = main
      @note = note
      @probe = probe
      @more = more
      @told = told
      @absent = {}
    end

    def steps = @setting.rounds * @entries.sum { |_, scenarios| scenarios.sum { |scenario| Scenarios.shapes(scenario, @setting.connections, @setting.full).size } }

    def run
      contest = Contest.new(@app.call, @entries, @setting, baseline: @baseline, probe: @probe, &@told).run
      @absent = contest.absent.transform_values { |why| why.lines.first.to_s.strip }
      summary = Summary.new(contest.cells, {}, counted: contest.counted, order: contest.servers, baseline: @baseline)
      titles = @entries.flat_map { |_, scenarios| scenarios }.to_h { |scenario| [scenario.name, scenario.title] }
      summary.groups.map { |group| part(group, titles[group.scenario], contest.traces) }
    end

    # A server under another name.
    def self.named(server, name) = server.dup.tap { |it| it.name = name }

    private

    def part(group, title, traces)
      more = group.rows.to_h { |row| [row.server, figures(row.server, group.scenario, traces)] }
      StoryFigures.of_group(group, title: "#{title}, #{group.shape}", note: @note, main: @main, baseline: @baseline, more: more)
    end

    def figures(server, scenario, traces)
      trace = traces.dig(server, scenario)
      { "writes" => trace && trace[:writes], **(@more ? @more.call(server, scenario) : {}) }.compact
    end
  end
end
