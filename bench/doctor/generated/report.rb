# frozen_string_literal: true

# Writes what `bin/bench doctor --generated` found: the score, a line for each seed, and what was said of each that was missed.
require_relative "../../lib/section_report"
require_relative "proof"

module Bench
  module Generated
    # RESULTS: Proofs.
    class Report < SectionReport
      HEAD = ["seed", "application", "right first", "right place", "twin", "gain: predicted, measured", "files"].freeze
      TEXTS = [0, 1, 2, 3, 4, 5, 6].freeze

      def kind = "doctor-generated"
      def markdown = "#{[heading, align(HEAD, @results.map { |proof| row(proof) }, texts: TEXTS), misses, setting].compact.join("\n\n")}\n"
      def data = { **of_run, summary: totals.to_h, results: @results.map { |proof| record(proof) } }

      private

      def heading
        <<~TEXT.strip
          # #{@command}

          #{about_run}

          Applications that are made from a seed: ten pages of Rails, Sinatra or Rack, and one to three faults of #{Kinds::ALL.size} kinds in them, at random places and in random forms. Right
          first: the doctor's first advice names the largest fault, by what its cure was measured to bring (or one that brings three quarters of that, or that was the
          larger one in one of #{Trial::ROUNDS} rounds: which is larger nobody can tell then); right place: and its line. Twin: what is advised where the faults are cured. Gain: the part of the request, "at most" being held to its side only; of what was not advised
          there is no prediction. Harmful: to let a cache keep a page that greets its visitor, or a line that names an association that is not there. Settings of Ruby,
          threads and the allocator are not tried. One seed: `bin/bench doctor --generated --seeds N..N`.

          #{totals.map { |what, figure| "#{what}: #{figure}" }.join(" · ")}.
        TEXT
      end

      def totals
        predictions = @results.flat_map { |proof| proof.predictions.values }
        faults = @results.select(&:judged?).flat_map { |proof| proof.ordered.map { |fault| !proof.of(fault).nil? } }
        [["Right first", count(&:right_first?)], ["of these as large within the error", @results.count(&:right_by_error?).to_s], ["right first with its place", count(&:right_place?)], ["twins silent", count(&:twin_silent?)],
         ["predicted within 15 %", DoctorSums.count(predictions)], ["without harmful advice", count(&:harmless?)], ["faults named at all", DoctorSums.count(faults)],
         ["files unchanged", count(&:unchanged)]]
      end

      def count(&) = DoctorSums.count(@results.map(&))

      def row(proof)
        [proof.app.seed.to_s, proof.app.title, yes(proof.right_first?), yes(proof.right_place?), twin(proof), proof.app.faults.map { |fault| gain(proof, fault) }.join("; "), proof.unchanged ? "unchanged" : "CHANGED"]
      end

      def yes(answer) = { true => "yes", false => "NO", nil => "-" }[answer]
      def twin(proof) = proof.of_twin ? (proof.twin_silent? ? "silent" : proof.of_twin.advice.join(", ")) : "-"

      def gain(proof, fault)
        gain, told = proof.gains[fault.number], proof.of(fault)
        measured = gain ? format("%.0f %% of %.1f %s", gain.share * 100, gain.fault, gain.unit) : "-"
        predicted = told && (fault.measure == "first_view" ? told.sent : told.gain_on(fault.path))
        "#{predicted ? "#{"≤ " if told.bound == "at_most"}#{(predicted * 100).round} %" : "-"}, #{measured}#{" OFF" if proof.holds?(fault) == false}"
      end

      def misses
        missed = @results.reject { |proof| proof.right_place? && proof.twin_silent? && proof.predictions.values.all? && proof.harmless? }
        "What was said of each that was missed:\n\n#{missed.map { |proof| miss(proof) }.join("\n")}" if missed.any?
      end

      def miss(proof)
        lines = ["- seed #{proof.app.seed}: #{proof.app.faults.map { |fault| "#{fault.kind.title} at #{proof.app.places[fault.number].join(" or ")} on #{fault.path}" }.join("; ")}"]
        lines += proof.failures.map { |part, why| "  - failed: #{part}: #{why.lines.first.to_s.strip}" }
        lines += proof.advice.map { |one| "  - #{one}: #{one.sentence}, at #{one.at}: `#{one.line}`" }
        lines += proof.harmful.map { |one| "  - harmful: #{one}: `#{one.line}`" }
        lines << "  - nothing was advised; most time: #{spent(proof)}" if proof.of_fault && proof.advice.empty?
        lines.join("\n")
      end

      def spent(proof)
        all = proof.of_fault.spent.map { |one| format("%s %.1f of %.1f ms in %s %s", one["route"], one["us"] / 1000, one["of_us"] / 1000, one["at"], one["call"]) }
        all.any? ? all.join("; ") : "not known"
      end

      def record(proof)
        { seed: proof.app.seed, base: proof.app.base, faults: proof.app.faults.map { |fault| { kind: fault.kind.name, form: fault.form, path: fault.path, places: proof.app.places[fault.number] } },
          right_first: proof.right_first?, right_place: proof.right_place?, twin_silent: proof.twin_silent?, unchanged: proof.unchanged, failures: proof.failures,
          gains: proof.gains.transform_values { |gain| gain.to_h.merge(share: gain.share) }, rounds: proof.rounds.transform_values { |gains| gains.map { |gain| gain.saved.round(3) } }, predicted: proof.predictions.transform_keys(&:number), harmful: proof.harmful.map(&:to_s),
          advice: proof.of_fault&.advice&.map(&:to_h), twin: proof.of_twin&.advice&.map(&:to_h), others: proof.of_fault&.others, left_out: proof.of_fault&.left_out,
          spent: proof.of_fault&.spent, doctor_seconds: [proof.of_fault, proof.of_twin].map { |said| said&.seconds&.round(1) } }.compact
      end
    end
  end
end
