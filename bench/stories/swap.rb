# frozen_string_literal: true

# The story of more workers than the memory has room for: the same application in a control group with a memory limit and swap space, with as many workers as
# somebody wrote down and with as many as Paceline finds room for.
require_relative "../doctor/scarce_memory"

module Bench
  module Stories
    class SwapStory < Story
      MEMORY = 256 << 20
      TOO_MANY = 8
      APP = File.expand_path("../apps/faults/memory_pressure", __dir__)
      WORDS = StoryWords.new(
        name: "swap", title: "More workers than there is memory for",
        slow: "With each worker more the machine answers more requests a second, until their memory does not fit any more: then the kernel moves pages to the disk and back, and all of them wait.",
        published: "Published: a virtual server of 256 MB whose pages took seconds; with fewer processes they did not.",
        change: ["paceline.toml", "workers = \"auto\""],
        shown: ["Pages", "unicorn, #{TOO_MANY} workers", "paceline, workers = \"auto\""]
      )

      private

      def make_sections = { "workers" => Scarce.new(setting, @told) }

      # The contest in groups of their own, which are there only while it runs.
      class Scarce
        def initialize(setting, told)
          @setting = setting.with(connections: [10], warm_up: 100)
          @told = told
        end

        def steps = contest(nil).steps
        def absent = @absent || {}

        def run
          memory = ScarceMemory.new(@setting.place, ScarceMemory::SWAP * 2)
          @swapped = {}
          contest = contest(memory)
          contest.run.tap { @absent = contest.absent }
        ensure
          memory&.close
        end

        # MB of the processes that are on the disk.
        def self.swapped_mb(pids)
          pids.sum { |pid| File.read("/proc/#{pid}/status")[/^VmSwap:\s+(\d+)/, 1].to_i } / 1024.0
        rescue SystemCallError
          0.0
        end

        private

        def contest(memory)
          StoryContest.new(@setting, app: -> { app }, entries: servers(memory).map { |server| [server, [scenario]] }, baseline: "unicorn, #{TOO_MANY} workers", probe: method(:look),
                                     more: ->(server, _) { @swapped.fetch(server, {}) }, note: note, &@told)
        end

        def note
          "Each worker keeps 48 MB of its own, and a page reads a part of it. #{MEMORY >> 20} MB of memory for the whole server, swap space beside it; ten clients. Workers and MB on the disk: " \
            "at the beginning of the last round. With one worker any server is quick: what differs is whether somebody has to find the number."
        end

        def app = App.new(name: :memory, directory: APP, environment: {})

        def scenario
          @scenario ||= Scenarios.new("find", "Pages from 48 MB a worker", :memory, [Kind.new("find", "/find", expected: "found\n")], warm_up: 100)
        end

        def look(visit, _round)
          processes = visit.processes
          @swapped[visit.server.name] = { "swapped_mb" => self.class.swapped_mb(processes.keys), "workers" => visit.workers.size }
        end

        def servers(memory)
          puma, unicorn, paceline = Servers.named(%w[puma unicorn paceline])
          [within(memory, puma, "puma, #{TOO_MANY} workers", TOO_MANY) { |port, _| by_puma(port, TOO_MANY) }, within(memory, puma, "puma, 1 worker", 1) { |port, _| by_puma(port, 1) },
           within(memory, unicorn, "unicorn, #{TOO_MANY} workers", TOO_MANY) { |port, work| ["env", "BENCH_WORKERS=#{TOO_MANY}", *unicorn.command.call(port, work)] },
           within(memory, paceline, "paceline, workers = #{TOO_MANY}", TOO_MANY) { |port, _| serve(port, TOO_MANY) },
           within(memory, paceline, "paceline, workers = \"auto\"", 1) { |port, _| serve(port, "auto") }]
        end

        def by_puma(port, workers) = ["puma", "-C", "-", "-b", "tcp://127.0.0.1:#{port}", "-e", "production", "-w", workers, "-t", "1:1", "-q"]

        # No YJIT: that of Ruby 3.1 takes 256 MB at once.
        def serve(port, workers)
          [Servers.paceline, "-C", "-", "-b", "tcp://127.0.0.1:#{port}", "-e", "production", "-w", workers, "-t", 1, "--yjit", "off", "-q", *Servers::AS_ROOT]
        end

        def within(memory, server, name, workers, &command)
          server.dup.tap do |it|
            it.name = name
            it.workers = workers
            it.threads = 1
            it.command = ->(port, work) { [*memory.group(MEMORY), *command.call(port, work)] }
          end
        end
      end
    end
  end
end
