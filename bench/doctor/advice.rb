# frozen_string_literal: true

# What `paceline doctor` says of an application's folder. Only here its JSON is known; never judges what it says.
require "json"
require "tempfile"
require_relative "../lib/processes"
require_relative "../lib/servers"

module Bench
  # One change that is worth it. ROUTES as `GET /books/*`, none for all; GAIN: the part of a request that it saves on its first route, BOUND: "measured", "at_most",
  # "at_least" or "computed"; both nil where nothing was measured. MEMORY: the part of all workers' private memory that it saves under load, SENT: of the bytes of
  # a page that it compresses, nil likewise; SAVED_BYTES: of the one or the other.
  # GAINS: {route => GAIN}, of those that were measured.
  # NUMBER: of `paceline doctor apply`; WRITTEN: whether that writes it.
  DoctorAdvice = Struct.new(:number, :written, :kind, :routes, :sentence, :line, :at, :gain, :bound, :saved_ms, :memory, :sent, :saved_bytes, :gains, keyword_init: true) do
    # Whether it is about PATH.
    def about?(path) = path == "*" || routes.empty? || routes.any? { |route| of?(route, path) }
    # The gain on PATH: what is on all pages is another part of each of them. nil: it was not measured there.
    def gain_on(path) = gains.to_h.find { |route, _| of?(route, path) }&.last
    def of?(route, path) = File.fnmatch(route.sub(/\A[A-Z]+ /, ""), path)
    def to_s = [kind, *routes.first].join(" ")
    def predicted = gain
    def predicted_saved = saved_ms
  end

  class DoctorSays
    # 1: there is something worth more than 5 %.
    FINE = [0, 1].freeze

    class Failed < StandardError; end

    # `others`: what it looked at in vain. `left_out`: requests that could not be replayed, with why. `waited`: seconds, for a quiet machine.
    # `spent`: the line in which each route spends most.
    attr_reader :advice, :others, :left_out, :spent, :seconds, :waited

    # Of the application in FOLDER. ARGUMENTS: of `paceline doctor`. LIMIT: seconds after which it is ended. PROGRAM: what runs it, another system's way of it.
    def self.ask(folder, arguments, environment, limit: nil, program: [Servers.paceline])
      began = now
      text, complaint, status = run([environment, *program, "doctor", "--json", *arguments], folder, limit)
      raise Failed, "paceline doctor: ended after #{limit} s; last it said: #{complaint.lines.last.to_s.strip}" unless status
      raise Failed, "paceline doctor: #{complaint.lines.last(3).join.strip}" unless FINE.include?(status.exitstatus)

      new(JSON.parse(text), now - began, complaint[/waited (\d+) s for a quiet machine/, 1]&.to_i)
    rescue JSON::ParserError => e
      raise Failed, "paceline doctor: no JSON: #{e.message[0, 100]}"
    end

    # What it prints, what it says meanwhile, and how it ended: nil after LIMIT.
    def self.run(command, folder, limit)
      output, complaint = Array.new(2) { Tempfile.new("doctor") }
      pid = Process.spawn(*command.map { |word| word.is_a?(Hash) ? word : word.to_s }, chdir: folder, in: File::NULL, out: output.path, err: complaint.path)
      waiter = Process.detach(pid)
      status = waiter.join(limit)&.value
      Processes.signal("INT", [pid]) unless status
      waiter.value
      [output.read, complaint.read, status]
    ensure
      [output, complaint].each { |file| file&.close! }
    end

    def self.now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    private_class_method :run, :now

    def initialize(found, seconds = nil, waited = nil)
      @advice = found.fetch("advice").map.with_index(1) { |one, number| read(one, number) }
      @others = found.fetch("others", []).map { |one| [one["kind"], one["standing"], one["why"]].compact.join(" ") }
      @left_out = found.dig("sample", "left_out").to_a.map { |one| one.values_at("request", "why", "what").join(" ") }
      @spent = found.dig("sample", "spent").to_a
      @seconds = seconds
      @waited = waited
    end

    private

    def read(one, number)
      gain = one.fetch("gains").first
      measured = gain && gain["of_us"].positive?
      memory, all = one["memory"], one.dig("load", "control", "memory")
      before, after = one.fetch("compression", nil)&.first&.values_at("before", "after")
      DoctorAdvice.new(number: number, written: one.dig("fix", "can_apply"), kind: one.fetch("kind"), routes: one.fetch("routes"), sentence: one["sentence"], line: one.dig("fix", "line"), at: one["at"],
                       memory: (-memory.fdiv(all) if memory && all), sent: (1 - after.fdiv(before) if before), saved_bytes: memory ? -memory : (before - after if before),
                       gains: one.fetch("gains").select { |each| each["of_us"].positive? }.to_h { |each| [each["route"].to_s, each["gain_us"].fdiv(each["of_us"])] },
                       gain: (gain["gain_us"].fdiv(gain["of_us"]) if measured), bound: (gain["bound"] if measured), saved_ms: gain && gain["gain_us"].fdiv(1000))
    end
  end
end
