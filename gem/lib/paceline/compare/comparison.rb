# frozen_string_literal: true

require "etc"
require_relative "load"
require_relative "ratio"
require_relative "side"

module Paceline
  module Compare
    # The order of a run: starts both versions, reads their memory before and after many requests, and measures each page in rounds, in which the versions take
    # turns in random order. Its result is a Hash of plain values, of which the report and the JSON are made. It prints nothing.
    class Comparison
      # What is measured in each round.
      MEASURED = %w[rate p50 p99 cpu_ms switches].freeze
      # Of the machine's time taken by others, of its cores that are busy before the run, and of the generator's core: more is mentioned.
      STEAL = 0.02
      BUSY = 0.75
      GENERATOR_BUSY = 0.9
      private_constant :STEAL, :BUSY, :GENERATOR_BUSY

      # SIDES: two Sides that are not started.
      def initialize(settings, sides, program, random: Random.new)
        @settings = settings
        @sides = sides
        @program = program
        @random = random
        @remarks = sides.filter_map { |side| side.ruby.remark }
        @fields = {}
      end

      # For a Progress.
      def steps
        pages * 2 * (@settings.rounds + 1) + 6
      end

      # Sides are started, and left running.
      def run(progress)
        @progress = progress
        look_at_machine
        cold = each_side("start") { |side| started(side) }
        each_side("look at the pages") { |side| @settings.paths.each { |path| visit(side, path) } }
        look_alike
        warm = each_side("#{@settings.requests} requests") { |side| after_requests(side) }
        samples = rounds
        calls = system_calls
        measured = @settings.paths.to_h { |path| [path, page(path, samples.select { |sample| sample[:path] == path }, calls)] }
        { "settings" => described, "sides" => @sides.to_h { |side| [side.name, about(side, cold, warm)] }, "pages" => measured, "not_known" => @not_known, "remarks" => @remarks.uniq }
      end

      private

      def pages
        @settings.paths.size
      end

      # {side's name => what the block returns}, in random order.
      def each_side(stage)
        @sides.shuffle(random: @random).to_h do |side|
          @progress.step(stage, side.name)
          [side.name, yield(side)]
        end
      end

      def started(side)
        side.start
        side.memory
      end

      # The first request of a page must be answered as all others will be, and says which cookies a visitor has.
      def visit(side, path)
        at = side.log.size
        response = side.get(path, @settings.headers)
        code = response.code.to_i
        raise Failed, refusal(side, path, response, at) unless code.between?(200, 299)
        cookies = @settings.cookies ? response.get_fields("set-cookie").to_a.map { |field| field[/\A[^;]+/] } : []
        @fields[[side.name, path]] = @settings.headers + (cookies.any? ? [["Cookie", cookies.join("; ")]] : [])
        @remarks << "#{side.name} sets no cookie at #{path}: its requests have none." if @settings.cookies && cookies.empty?
      end

      def refusal(side, path, response, at)
        reason = "#{side.name} answers GET #{path} with #{response.code} #{response.message}".strip
        return "#{reason}, to #{response["location"]}: add -H \"X-Forwarded-Proto: https\"" if response["location"].to_s.start_with?("https:")
        return "#{reason}, to #{response["location"]}: name a page by --path" if response["location"]
        printed = side.last_lines(at)
        printed.empty? ? "#{reason}; name a page that it answers by --path" : "#{reason}. Its log:\n#{printed}"
      end

      # A folder that is compared with itself shows how large differences by chance are.
      def look_alike
        @remarks << "The folders are the same, and so are their Rubies: a difference is chance." if @sides.map { |side| [side.dir, side.ruby.command] }.uniq.size == 1
      end

      def after_requests(side)
        each = @settings.requests.fdiv(pages).ceil
        @settings.paths.each { |path| load(side, path).of_requests(each) }
        side.memory
      end

      # Hashes with :path, :side, :round and the figures.
      def rounds
        (1..@settings.rounds).flat_map do |round|
          @settings.paths.shuffle(random: @random).flat_map do |path|
            @sides.shuffle(random: @random).map do |side|
              @progress.step("round #{round} of #{@settings.rounds}", "#{path}, #{side.name}")
              { path: path, side: side.name, round: round, **measure(side, path) }
            end
          end
        end
      end

      def measure(side, path)
        before = side.reading
        sample = load(side, path).for_seconds(@settings.time)
        use = Processes.difference(before, side.reading)
        @remarks << "#{side.name}: processes began or ended while #{path} was measured, so that a part of CPU and context switches is missing." if use.replaced
        answers = [sample.answers, 1].max
        { sample: sample, "rate" => sample.rate, "p50" => sample.p50, "p99" => sample.p99, "cpu_ms" => use.cpu * 1000 / answers, "switches" => use.switches.fdiv(answers) }
      end

      # {[side's name, path] => calls a request}
      def system_calls
        @not_known = {}
        why = Load.uncounted
        @not_known["system_calls"] = why if why
        @settings.paths.product(@sides).to_h do |path, side|
          @progress.step("system calls", "#{path}, #{side.name}")
          [[side.name, path], why ? nil : load(side, path).system_calls(side.pids, [@settings.time, 1].min)]
        end
      end

      def load(side, path)
        Load.new(@program, @settings, "#{side.base}#{path}", @fields.fetch([side.name, path]))
      end

      def page(path, samples, calls)
        by_side = @sides.to_h { |side| [side.name, samples.select { |sample| sample[:side] == side.name }.sort_by { |sample| sample[:round] }] }
        by_side.each { |name, own| doubts(name, path, own.map { |sample| sample[:sample] }) }
        figures = by_side.to_h { |name, own| [name, of_side(own).merge("system_calls" => calls[[name, path]])] }
        a, b = by_side.values
        ratios = MEASURED.to_h { |figure| [figure, Ratio.of(a.map { |one| one[figure] }, b.map { |one| one[figure] })&.to_h] }
        { "figures" => figures, "ratios" => ratios }
      end

      # Medians, and the figures of each round.
      def of_side(samples)
        medians = MEASURED.to_h { |figure| [figure, median(samples.map { |sample| sample[figure] })] }
        all = samples.map { |sample| sample[:sample] }
        medians.merge("bytes" => all.first.bytes, "answers" => all.sum(&:answers), "wrong" => all.sum(&:wrong), "rounds" => samples.map { |sample| sample.slice(*MEASURED) })
      end

      # What makes the figures doubtful.
      def doubts(name, path, samples)
        wrong = samples.sum(&:wrong)
        @remarks << "#{name}, #{path}: #{wrong} of #{samples.sum(&:answers)} answers are wrong (#{kinds(samples)})." if wrong.positive?
        @remarks << "The generator used its core fully: no version can show more here." if samples.any? { |sample| sample.generator.to_f > GENERATOR_BUSY }
        steal = median(samples.map { |sample| sample.steal.to_f })
        @remarks << "Other virtual machines took #{(steal * 100).round} % of this machine's time." if steal > STEAL
      end

      # Like "503, connection refused".
      def kinds(samples)
        samples.flat_map { |sample| sample.statuses.keys.reject { |status| status.start_with?("2") } + sample.failures.keys }.uniq.join(", ")
      end

      def look_at_machine
        load = File.read("/proc/loadavg").to_f
        @remarks << "The machine was busy before the run: its load average was #{load.round(1)}." if load > Etc.nprocessors * BUSY
      end

      def about(side, cold, warm)
        { "dir" => side.dir, "ruby" => side.ruby.command, "versions" => side.versions, "start_seconds" => side.start_seconds,
          "memory" => { "cold" => cold.fetch(side.name), "after" => warm.fetch(side.name) } }
      end

      def described
        %i[environment workers threads clients rounds time requests cookies paths].to_h { |name| [name.to_s, @settings[name]] }
      end

      def median(values)
        sorted = values.compact.sort
        return if sorted.empty?
        (sorted[(sorted.size - 1) / 2] + sorted[sorted.size / 2]) / 2.0
      end
    end
  end
end
