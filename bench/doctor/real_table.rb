# frozen_string_literal: true

# Whole applications in the report of `bin/bench doctor`: a row of each in the table of all, their advice with its figures, and what was tried in vain.
# Never measures anything.
module Bench
  module DoctorRealTable
    ADVICE = ["application", "advice", "", "about", "predicted", "change", "applied"].freeze

    private

    def real_rows
      @results.real.map do |proof|
        advice = proof.said&.advice
        first = advice ? (advice.first || "no advice").to_s : (proof.missing ? "left out" : part(proof, "doctor"))
        [proof.name, proof.app.title, first, advice.to_a.drop(1).join(", "), "-", files(proof), *gains(proof), live_of(proof.name)]
      end
    end

    def live_of(name) = (live_ratios if name == DoctorLive::APPLICATION) || "-"

    def real_advice
      rows = @results.real.flat_map { |proof| proof.said ? proof.said.advice.map { |advice| advice_row(proof, advice) } : [] }
      table = "Advice on whole applications; applied: what was measured with it, of the first one with a known cure.\n\n#{align(ADVICE, rows, texts: [0, 2, 3, 5, 6])}" if rows.any?
      parts = [table, tried_in_vain].compact
      parts.join("\n\n") if parts.any?
    end

    def tried_in_vain
      lines = @results.real.filter_map { |proof| "- #{proof.name}: #{proof.said.others.join("; ")}" if proof.said&.others&.any? }
      "Tried there and not worth it:\n\n#{lines.join("\n")}" if lines.any?
    end

    def advice_row(proof, advice)
      applied = advice == proof.applied
      change = applied && proof.gain ? "#{figure(proof.gain.fault, "ms")} to #{figure(proof.gain.clean, "ms")}#{rounds(proof.gains)}" : ""
      [proof.name, advice.number.to_s, advice.kind, advice.routes.first.to_s, predicted(advice), advice.line.to_s.strip.gsub("|", "\\|"), change]
    end

    # How far the rounds are apart.
    def rounds(gains)
      shares = gains.map { |gain| (gain.share * 100).round }
      " (#{gains.size} rounds: #{shares.min} to #{shares.max} %)" if gains.size > 1
    end

    def real_records
      @results.real.map do |proof|
        { application: proof.name, title: proof.app.title, paths: proof.app.paths, missing: proof.missing, failures: proof.failures, unchanged: proof.unchanged,
          advice: proof.said&.advice&.map(&:to_h), others: proof.said&.others, left_out: proof.said&.left_out, doctor_seconds: proof.said&.seconds&.round(1),
          applied: proof.applied&.number, gain: proof.gain && proof.gain.to_h.merge(share: proof.gain.share, predicted: proof.applied.gain, miss: proof.miss, rounds: proof.gains.map(&:share)) }.compact
      end
    end
  end
end
