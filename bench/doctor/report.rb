# frozen_string_literal: true

# Writes what `bin/bench doctor` found, as Markdown and JSON.
require_relative "../lib/section_report"
require_relative "live_table"
require_relative "real_table"
require_relative "trial"

module Bench
  # As far as they came: DoctorProofs of the faults, DoctorRealProofs of whole applications, DoctorLiveRows of the rates.
  DoctorResults = Struct.new(:proofs, :real, :live, keyword_init: true) do
    def any? = to_a.any?(&:any?)
    # Both have miss, holds? and unchanged.
    def all = proofs + real
  end

  # RESULTS: DoctorResults.
  class DoctorReport < SectionReport
    include DoctorLiveTable
    include DoctorRealTable

    HEAD = ["application", "fault", "named first", "also", "clean twin", "files", "as it is", "cured", "gain", "predicted", "off", "live p99"].freeze
    TEXTS = [0, 1, 2, 3, 4, 5].freeze

    def kind = "doctor"

    def markdown
      [heading, (align(HEAD, rows, texts: TEXTS) if rows.any?), real_advice, live_table, absent, setting].compact.join("\n\n") << "\n"
    end

    def data
      { **of_run, summary: totals.to_h,
        results: @results.proofs.map { |proof| record(proof) }, real: real_records, live: live_records }
    end

    private

    def heading
      <<~TEXT.strip
        # #{@command}

        #{about_run}

        Small applications with one known fault each, beside clean twins that differ in its cure alone; below them whole applications as they are. Named first: the
        doctor's first advice is that fault, of that page (of whole applications: what it advises first); also: what else it advises. Clean twin: what it advises there.
        Files: whether a run changed the database or any other. As it is, cured: what `paceline bench` measured of the two in turn; gain: of that, predicted: by the
        doctor (≤: at most, ≥: at least), off: of the gain. Gain and prediction are compared as parts of the request, not in milliseconds, and "at most" and
        "at least" on their side only; rows without a prediction do not count. Live p99: of visitors during a run of the doctor, as a multiple of that without.

        #{totals.map { |what, figure| "#{what}: #{figure}" }.join(" · ")}.
      TEXT
    end

    # Pairs of what is wanted and what came of it.
    def totals
      proofs, all = @results.proofs, @results.all
      [["Named first (wanted: 9 of 10)", DoctorSums.count(proofs.map(&:named_first?))], ["no advice on clean twins (19 of 20)", DoctorSums.count(proofs.map(&:twin_clean?))],
       ["predicted within 15 % (all)", DoctorSums.count(all.map(&:holds?))], ["files unchanged (all)", DoctorSums.count(all.map(&:unchanged))],
       ["live p99 (at most 1.1)", live_ratios || "not measured"]]
    end

    def rows = @results.proofs.map { |proof| row(proof) } + real_rows

    def row(proof)
      fault = proof.fault
      [fault.name, fault.title, named(proof), proof.others.join(", "), twin(proof), files(proof), *gains(proof), "-"]
    end

    def files(proof) = yes(proof.unchanged, "unchanged", "CHANGED")

    def named(proof)
      return proof.missing ? "left out" : part(proof, "fault") unless proof.of_fault

      proof.named_first? ? "yes" : "NO: #{proof.first || "nothing"}"
    end

    def twin(proof) = proof.of_twin ? (proof.twin_clean? ? "no advice" : proof.of_twin.advice.join(", ")) : part(proof, "twin")

    def part(proof, name) = proof.failures[name] ? "failed" : "-"

    def gains(proof)
      gain = proof.gain or return [part(proof, "applied"), *["-"] * 4]
      [figure(gain.fault, gain.unit), figure(gain.clean, gain.unit), part_and_figure(gain.share, gain.saved, gain.unit), predicted(proof, gain.unit), proof.miss ? format("%+.0f %%", proof.miss * 100) : "-"]
    end

    # Of a proof, or of an advice.
    def predicted(one, unit = "ms")
      return "-" unless one&.predicted

      unit = "ms" unless unit == "bytes"
      "#{{ "at_most" => "≤ ", "at_least" => "≥ " }[one.bound]}#{part_and_figure(one.predicted, one.predicted_saved, unit)}"
    end

    def part_and_figure(share, saved, unit) = "#{percent(share)}, #{figure(saved, unit)}"

    def figure(number, unit)
      case unit
      when "ms" then format(number < 10 ? "%.2f ms" : "%.1f ms", number)
      when "bytes" then number >= 1_048_576 ? "#{megabytes(number)} MB" : "#{rounded(number / 1024.0)} KB"
      else "#{rounded(number)} #{unit}"
      end
    end

    def percent(share) = format("%.0f %%", share * 100)
    def yes(answer, right, wrong) = answer.nil? ? "-" : (answer ? right : wrong)

    def absent
      lines = [*@results.all.flat_map { |proof| missing(proof).to_a }, *live_failures].map { |what, why| "- #{what}: #{why.lines.first.strip}" }
      "Without a result:\n\n#{lines.join("\n")}" if lines.any?
    end

    # {what has no result => why}
    def missing(proof)
      return { proof.name => proof.missing } if proof.missing

      proof.failures.transform_keys { |part| "#{proof.name}, #{part}" }
    end

    def record(proof)
      gain = proof.gain
      { application: proof.fault.name, fault: proof.fault.title, kind: proof.fault.kind, path: proof.fault.path, cure: proof.fault.cure, missing: proof.missing, failures: proof.failures,
        named_first: proof.named_first?, named: proof.named?, unchanged: proof.unchanged, advice: proof.of_fault&.advice&.map(&:to_h), twin: proof.of_twin&.advice&.map(&:to_h),
        others: proof.of_fault&.others, left_out: proof.of_fault&.left_out, doctor_seconds: [proof.of_fault, proof.of_twin].map { |said| said&.seconds&.round(1) },
        gain: gain && gain.to_h.merge(share: gain.share, predicted: proof.predicted, miss: proof.miss) }.compact
    end
  end
end
