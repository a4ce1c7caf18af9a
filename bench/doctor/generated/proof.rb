# frozen_string_literal: true

# What the doctor says of a generated application and of its twin, what the cures bring, and the score of that. First it is asked; then both are measured.
require_relative "../../lib/machine"
require_relative "../advice"
require_relative "../gain"
require_relative "../measured"
require_relative "../scene"
require_relative "application"

module Bench
  module Generated
    # GAINS: {number of a fault => DoctorGain}, of all rounds together; ROUNDS: {number => [DoctorGain, ...]} of each. SAID: advice on the faulty application and the clean one.
    # FAILURES: {part => why it has no result}.
    Proof = Struct.new(:app, :of_fault, :of_twin, :unchanged, :gains, :rounds, :failures, keyword_init: true) do
      # Two faults of which one saves so much of what the other does may come in any order.
      const_set(:EQUAL, 0.75)
      # Advice that lets a cache keep a page, which here greets its visitor.
      const_set(:CACHES, %w[cache_headers cache_vary cache_cookie].freeze)

      def name = app.name
      def advice = of_fault&.advice.to_a
      def first = advice.first
      # Faults whose cure is worth it here, the largest first.
      def ordered = app.faults.select { |fault| gains[fault.number]&.fault? }.sort_by { |fault| -saved(fault) }
      # Of all pages, which are asked for equally: each of them pays for a middleware.
      def saved(fault, gain = gains[fault.number]) = gain.saved * (fault.middleware? ? app.pages.size : 1)

      # Those that may come first: the largest one, what saves nearly as much, and what can't be told from it.
      def largest
        times = ordered.reject { |fault| fault.measure == "first_view" }
        return ordered.take(1) if times.empty?

        times.select { |fault| saved(fault) >= saved(times.first) * self.class::EQUAL || as_large?(fault, times.first) }
      end

      # Whether it was the larger one in one of the rounds, which were measured in turn.
      def as_large?(fault, largest)
        all = rounds.to_h.values_at(fault.number, largest.number)
        all.all? && all.transpose.any? { |own, other| saved(fault, own) >= saved(largest, other) }
      end

      # Right only since nobody can tell which of them is the larger.
      def right_by_error? = right_first? && ordered.none? { |fault| fault.told_by?(first) && saved(fault) >= saved(largest.first) * self.class::EQUAL }

      # nil: nothing is known of it.
      def right_first? = (largest.any? { |fault| first && fault.told_by?(first) } if judged?)
      def right_place? = (right_first? && largest.any? { |fault| fault.told_by?(first) && placed?(fault, first) } if judged?)
      def judged? = of_fault && ordered.any?
      def twin_silent? = (of_twin.advice.empty? if of_twin)
      def harmful = [*advice, *of_twin&.advice].select { |one| harms?(one) }
      def harmless? = (harmful.empty? if of_fault)

      # The advice that names a fault.
      def of(fault) = advice.find { |one| fault.told_by?(one) }

      # Pairs of a fault and whether what was predicted of it holds. Not of what nobody predicted.
      def predictions = app.faults.filter_map { |fault| [fault, holds?(fault)] unless holds?(fault).nil? }.to_h

      def holds?(fault)
        told, gain = of(fault), gains[fault.number]
        return unless told && gain

        fault.measure == "first_view" ? DoctorSums.holds?(told.sent, gain.share) : DoctorSums.holds?(told.gain_on(fault.path), gain.share, told.bound)
      end

      # A line of the fault itself; or what has no line is named.
      def placed?(fault, told)
        fault.kind.anywhere || app.places[fault.number].include?(told.at) || (fault.middleware? && told.sentence.to_s.include?(fault.name))
      end

      private

      # It lets others see a visitor's page, or its line does not run.
      def harms?(one)
        return true if self.class::CACHES.include?(one.kind)

        owner, association = one.line.to_s.match(/(\w+)\.includes\(:?(\w+)/)&.captures
        !owner.nil? && app.shop.associations.none? { |model, name| model == owner && name == association }
      end
    end

    class Trial
      # What the doctor tries here: all but settings of Ruby, threads and memory, which take minutes.
      ONLY = %w[cold_connections serial_calls builder_xml xml_mini p_store file_sessions repeated_queries missing_index debug_log cache_store cache_headers cache_vary cache_cookie
                uncompressed_pages eager_load code_reloading fragments_not_kept templates_not_kept slow_middleware slow_partial large_session sync_mail whole_records loaded_records
                slow_line].freeze
      # Requests before the load, and seconds that they may take.
      STEADY = 60
      WARM_UP = 2
      # Seconds after which the doctor is ended.
      LIMIT = 200
      # Seconds of load, and of each round where several faults are measured in turn: so it is seen how exactly they are known.
      SECONDS = 3
      ROUNDS = 3
      ROUND_SECONDS = 1

      # The block is given what is being done, and whether it is done.
      def initialize(app, scene, seconds: SECONDS, &told)
        @app = app
        @scene = scene
        @seconds = seconds
        @told = told
      end

      def run
        proof = Proof.new(app: @app, gains: {}, rounds: {}, failures: {})
        part(proof, "preparation") { @scene.lay(@app) } and prove(proof)
        proof
      ensure
        @scene.clear(@app)
      end

      private

      def prove(proof)
        changed = []
        part(proof, "fault") { proof.of_fault = ask("fault", changed) }
        part(proof, "twin") { proof.of_twin = ask("clean", changed) }
        proof.unchanged = changed.none?
        part(proof, "applied") { measure(proof) }
      end

      def ask(variant, changed)
        folder = @scene.folder(@app, variant)
        before = DoctorFault.checksum(folder)
        DoctorSays.ask(folder, ["--offline", folder, "--server", "paceline", "--only", ONLY.join(","), *@app.paths.flat_map { |path| ["--path", path] }], environment, limit: LIMIT)
      ensure
        changed << (DoctorFault.checksum(folder) != before)
      end

      # The doctor's Ruby compiles as that of the servers does.
      def environment = Machine::YJIT.merge(@scene.environment)

      # Each cure alone: another one may be on all pages, too.
      def measure(proof)
        cured, one = {}, @scene.server(@app, "fault").start
        @app.faults.each { |fault| cured[fault] = @scene.server(@app, cure(fault)).start }
        (@app.faults.one? ? 1 : ROUNDS).times do |round|
          # In the other order each time: what the machine does may grow or become less.
          (round.even? ? cured.to_a : cured.to_a.reverse).each { |fault, server| (proof.rounds[fault.number] ||= []) << gain(fault, [one, server], round) }
        end
      ensure
        proof.gains.update(proof.rounds.reject { |_, rounds| rounds.empty? }.transform_values { |rounds| DoctorGain.mean(rounds) })
        [one, *cured.values].compact.each(&:stop)
      end

      # Bytes are the same ones in each round.
      def gain(fault, servers, round)
        measured = DoctorMeasured.new(fault, @scene, seconds: @app.faults.one? ? @seconds : ROUND_SECONDS, steady: STEADY, longest_warm_up: WARM_UP, waits: false)
        round.zero? || fault.measure != "request" ? measured.held_and_measured(servers) : measured.of(servers)
      end

      # The variant, which is laid.
      def cure(fault)
        return "clean" if @app.faults.one?

        "cured-#{fault.number}".tap { |variant| @app.lay(variant, @scene.folder(@app, variant), @scene.environment) }
      end

      def part(proof, name)
        @told.call(name, false)
        yield
        @told.call(name, true)
        true
      rescue DoctorFault::Failed, DoctorSays::Failed, DoctorMeasured::Failed, RunningServer::Failed => e
        proof.failures[name] = e.message.strip
        @told.call("#{name}: #{e.message.lines.first.to_s.strip}", true)
        false
      end
    end
  end
end
