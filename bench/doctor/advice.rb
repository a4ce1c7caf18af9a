# frozen_string_literal: true

# What `paceline doctor` says of an application's folder. Only here its JSON is known; never judges what it says.
require "json"
require "open3"
require_relative "../lib/servers"

module Bench
  # One change that is worth it. ROUTES as `GET /books/*`, none for all; GAIN: the part of a request that it saves on its first route, BOUND: "measured", "at_most",
  # "at_least" or "computed"; both nil where nothing was measured.
  DoctorAdvice = Struct.new(:kind, :routes, :line, :at, :gain, :bound, :saved_ms, keyword_init: true) do
    # Whether it is about PATH.
    def about?(path) = path == "*" || routes.empty? || routes.any? { |route| File.fnmatch(route.sub(/\A[A-Z]+ /, ""), path) }
    def to_s = [kind, *routes.first].join(" ")
  end

  class DoctorSays
    # 1: there is something worth more than 5 %.
    FINE = [0, 1].freeze

    class Failed < StandardError; end

    # `others`: what it looked at in vain. `left_out`: requests that could not be replayed, with why.
    attr_reader :advice, :others, :left_out, :seconds

    # Of the application in FOLDER. ARGUMENTS: of `paceline doctor`.
    def self.ask(folder, arguments, environment)
      began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      text, complaint, status = Open3.capture3(environment, Servers.paceline, "doctor", "--json", *arguments, chdir: folder)
      raise Failed, "paceline doctor: #{complaint.lines.last(3).join.strip}" unless FINE.include?(status.exitstatus)

      new(JSON.parse(text), Process.clock_gettime(Process::CLOCK_MONOTONIC) - began)
    rescue JSON::ParserError => e
      raise Failed, "paceline doctor: no JSON: #{e.message[0, 100]}"
    end

    def initialize(found, seconds = nil)
      @advice = found.fetch("advice").map { |one| read(one) }
      @others = found.fetch("others", []).map { |one| [one["kind"], one["standing"], one["why"]].compact.join(" ") }
      @left_out = found.dig("sample", "left_out").to_a.map { |one| one.values_at("request", "why", "what").join(" ") }
      @seconds = seconds
    end

    private

    def read(one)
      gain = one.fetch("gains").first
      measured = gain && gain["of_us"].positive?
      DoctorAdvice.new(kind: one.fetch("kind"), routes: one.fetch("routes"), line: one.dig("fix", "line"), at: one["at"],
                       gain: (gain["gain_us"].fdiv(gain["of_us"]) if measured), bound: (gain["bound"] if measured), saved_ms: gain && gain["gain_us"].fdiv(1000))
    end
  end
end
