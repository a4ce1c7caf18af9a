# frozen_string_literal: true

# One application's proof: what the doctor says of it and of its twin, whether either run changed a file, and what the cure brings.
require_relative "advice"
require_relative "gain"
require_relative "measured"

module Bench
  # `missing`: why there is no proof; `failures`: {part => why it has none}.
  DoctorProof = Struct.new(:fault, :of_fault, :of_twin, :unchanged, :gain, :missing, :failures, keyword_init: true) do
    def name = fault.name
    # nil: the doctor was not asked.
    def named_first? = of_fault && right?(of_fault.advice.first)
    def named? = of_fault && of_fault.advice.any? { |advice| right?(advice) }
    def first = of_fault&.advice&.first
    # All else that was advised.
    def others = of_fault ? of_fault.advice.reject { |advice| right?(advice) } : []
    def twin_clean? = of_twin && of_twin.advice.empty?
    def right = of_fault&.advice&.find { |advice| right?(advice) }
    # In the unit of the gain.
    def predicted = { "memory" => right&.memory, "first_view" => right&.sent }.fetch(fault.measure) { right&.gain }
    def predicted_saved = of_bytes? ? right&.saved_bytes : right&.saved_ms
    def bound = (right&.bound unless of_bytes?) || "measured"
    def miss = gain && DoctorSums.miss(predicted, gain.share)
    def holds? = gain && DoctorSums.holds?(predicted, gain.share, bound)

    def of_bytes? = %w[memory first_view].include?(fault.measure)
    def right?(advice) = !advice.nil? && advice.kind == fault.kind && advice.about?(fault.path)
  end

  class DoctorTrial
    PARTS = %w[fault twin applied].freeze
    # Seconds that the doctor watches a server.
    WATCH = 8

    # PARTS: which are run; BUSY: the doctor does not wait for a quiet machine; the block is given what is being done, and whether it is done.
    def initialize(fault, scene, parts, seconds:, busy: false, &told)
      @busy = busy ? %w[--busy] : []
      @fault = fault
      @scene = scene
      @parts = parts
      @seconds = seconds
      @told = told
    end

    def run
      proof = DoctorProof.new(fault: @fault, missing: @fault.missing, failures: {})
      if proof.missing
        @told.call("left out: #{proof.missing}", true)
      else
        prove(proof)
      end
      proof
    ensure
      @scene.clear(@fault)
    end

    private

    def prove(proof)
      @scene.lay(@fault)
      changed = []
      part(proof, "fault") { proof.of_fault = ask("fault", changed) }
      part(proof, "twin") { proof.of_twin = ask("clean", changed) }
      proof.unchanged = changed.none? if changed.any? || proof.of_fault || proof.of_twin
      part(proof, "applied") { proof.gain = DoctorMeasured.new(@fault, @scene, seconds: @seconds).run }
    rescue DoctorFault::Failed => e
      proof.failures["preparation"] = e.message
      @parts.each { @told.call(e.message, true) }
    end

    def part(proof, name)
      return unless @parts.include?(name)

      @told.call(name, false)
      yield
      @told.call(name, true)
    rescue DoctorSays::Failed, DoctorMeasured::Failed, RunningServer::Failed => e
      proof.failures[name] = e.message.strip
      @told.call("#{name}: #{e.message.lines.first.to_s.strip}", true)
    end

    # CHANGED gets whether the run changed a file of the application.
    def ask(variant, changed)
      folder = @scene.folder(@fault, variant)
      paths = @fault.paths.flat_map { |path| ["--path", path] }
      case @fault.live
      when nil then unchanged(folder, changed) { said(folder, "--offline", folder, "--server", @fault.server == "paceline" ? "paceline" : "other", *paths) }
      when "paths" then @scene.serving_one(@fault, variant) { unchanged(folder, changed) { said(folder, *@busy, *paths) } }
      else watched(folder, variant, changed)
      end
    end

    def unchanged(folder, changed)
      before = DoctorFault.checksum(folder)
      yield
    ensure
      changed << (DoctorFault.checksum(folder) != before)
    end

    # Of a server that is under load while the doctor watches it. The load's own sessions are there before.
    def watched(folder, variant, changed)
      @scene.serving_one(@fault, variant) do |server|
        load = DoctorMeasured.new(@fault, @scene).load(server, WATCH + 2)
        unchanged(folder, changed) { said(folder, "--watch", "#{WATCH}s", *@busy) }
      ensure
        load&.join
      end
    end

    def said(folder, *arguments) = DoctorSays.ask(folder, arguments, @scene.environment)
  end
end
