# frozen_string_literal: true

# The table of README.md from results of `bin/bench serve`: of each row the generator that is worst for Paceline, with the least and the most of its runs. A pure
# function of the results.
require_relative "combined"

module Bench
  class Readme
    include Table

    # Scenario, key of the load, figure; a row whose load is in no result is left out.
    ROWS = [%w[hello c64k rate], %w[hello c64k cpu], %w[hello c25n rate], %w[hello c25n cpu], %w[hello c1k rate], %w[hello c1k cpu], %w[chunks c64k rate], %w[plain c64k rate], %w[plain c25k rate],
            %w[plain c25n rate], %w[rails c64k rate], %w[rails c64k cpu], %w[rails c25k rate], %w[rails c25k cpu], %w[rails c25n rate], %w[redmine c25n rate], %w[redmine c25n cpu]].freeze
    SHORT = { "hello" => "Rack, 27 bytes", "chunks" => "Rack, 1,300 pieces", "plain" => "Rails, `render plain`", "rails" => "Rails, a list of 24 records", "redmine" => "Redmine, `/`" }.freeze
    LOADS = { "c64k" => "64 kept connections", "c25k" => "25 kept connections", "c25n" => "25 new connections", "c1k" => "one client" }.freeze
    FIGURES = { "rate" => "requests/s", "cpu" => "CPU a request" }.freeze
    OWN = "paceline"

    # COMBINED: of the results.
    def initialize(combined)
      @combined = combined
    end

    # Raises Combined::Unusable if the results have none of its rows.
    def markdown
      raise Combined::Unusable, "--readme: the results have no load of README's table with #{OWN} in it" if rows.empty?

      [heading, align(["", *servers.map(&:capitalize), *("generator" if several?)], rows, texts: [0]), @combined.sources].join("\n\n") << "\n"
    end

    private

    def servers = @combined.servers - [Servers::BASELINE]
    def several? = @combined.generators.size > 1

    def rows
      ROWS.filter_map do |scenario, key, figure|
        load = worst(scenario, key, figure) or next
        ["#{SHORT.fetch(scenario)}, #{LOADS.fetch(key)}: #{FIGURES.fetch(figure)}", *servers.map { |server| cell(load, server, figure) }, *(load.last if several?)]
      end
    end

    # The load of the generator that shows Paceline at its worst: where it has no figure, else the least requests/s, or the most CPU.
    def worst(scenario, key, figure)
      loads = @combined.loads_of(scenario, key).select { |load| @combined.rows(load, OWN).any? }
      loads.max_by do |load|
        (least, most), reasons = @combined.range(load, OWN, "#{figure}_ratio")
        next Float::INFINITY if reasons.any?

        figure == "cpu" ? most.to_f : -least.to_f
      end
    end

    def cell(load, server, figure)
      range, reasons = @combined.range(load, server, "#{figure}_ratio")
      return "no figure" if reasons.any?
      return "" unless range[0]

      text = "#{range.map { |number| precise(number) }.uniq.join("-")}x"
      server == OWN ? "**#{text}**" : text
    end

    # Of tens of times no hundredths.
    def precise(number) = number >= 10 ? number.round.to_s : factor(number)

    def heading
      "#{@combined.runs} run#{"s" if @combined.runs > 1} of `bin/bench serve`, with #{@combined.stack}; access log #{@combined.access_log}. The ratios are to Puma in the same round, the range is that of the runs" \
        "#{". Of #{@combined.generators.join(", ")} each row has the generator that is worst for Paceline" if several?}."
    end
  end
end
