# frozen_string_literal: true

# The story of a page that the application's log calls fast and its visitors slow: 1,300 lines that a server sends with a write for each.
require_relative "../story/inside_outside"

module Bench
  module Stories
    class OnewriteStory < Story
      SERVERS = %w[puma webrick thin unicorn passenger paceline].freeze
      WORDS = StoryWords.new(
        name: "onewrite", title: "A page of 1,300 lines, and a write for each",
        slow: "The log says that the page took a few milliseconds, the visitor waits for many more: each line of the body is a chunk and a write of its own, and the kernel, the network and the client pay for each.",
        published: "Published: 8 ms in the application's log, 170 ms for its client.",
        change: ["the application's folder", "paceline -e production             # instead of puma; the application stays as it is"],
        shown: ["Outside beside inside", "puma", "paceline"]
      )
      OUTSIDE = "Outside: from the request to the last byte, one client, one request after the other. Inside: what the application itself took, by its header x-runtime. " \
                "What lies between them is the server's and the kernel's. In the chart the dark part of a bar is inside."

      private

      def make_sections
        @probe = InsideOutside.new("/page")
        load = contest(with: { connections: [1, 25] }, app: -> { Apps.prepare(:rack) }, entries: Servers.named(SERVERS).map { |server| [server, [scenario]] }, baseline: SERVERS[0], probe: @probe)
        { "servers" => WithGap.new(load, @probe, SERVERS[0], OUTSIDE) }
      end

      def scenario
        @scenario ||= Scenarios.new("page", "A page of 1,300 lines made in the application", :rack, [Kind.new("page", "/page", contains: "line 1299 ")], warm_up: 200)
      end

      # The loads, and before them what the probe saw.
      class WithGap
        def initialize(load, probe, baseline, note)
          @load = load
          @probe = probe
          @baseline = baseline
          @note = note
        end

        def steps = @load.steps
        def absent = @load.absent

        def run
          loads = @load.run
          [self.class.gap(@probe.medians, @baseline, @note), *loads]
        end

        # MEDIANS: {server => {round => [outside, inside]}}.
        def self.gap(medians, baseline, note)
          rows = medians.map do |server, rounds|
            outside, inside = rounds.values.transpose
            base = rounds.keys.map { |round| medians.dig(baseline, round, 0) }
            StoryFigures.of_rounds(server, { "outside" => outside, "inside" => inside }, main: "outside", base: base)
          end
          StoryFigures::Part.new(title: "Outside beside inside", note: note, main: "outside", baseline: baseline, rows: rows)
        end
      end
    end
  end
end
