# frozen_string_literal: true

# `bin/bench doctor`: whether `paceline doctor` finds known faults: a small application for each, with its clean twin, and what the cure brings under
# `paceline bench`; what it says of whole applications; what visitors notice of it. Parts: --faults, --twins, --applied, --real, --live; all, if none is named. Apart from these:
# --generated, applications that are made from seeds.
require "optparse"
require_relative "lib/invocation"
require_relative "lib/machine"
require_relative "lib/progress"
require_relative "doctor/generated/run"
require_relative "doctor/live"
require_relative "doctor/real"
require_relative "doctor/report"
require_relative "doctor/scene"
require_relative "doctor/trial"

module Bench
  class Doctor
    Options = Struct.new(:apps, :parts, :seconds, :rates, :rounds, :trials, :busy, :output, :generated, :seeds, :base, :database, keyword_init: true)
    PACKAGES = %w[puma ruby-sinatra].freeze

    def initialize(arguments)
      @command = ["bin/bench doctor", *arguments].join(" ")
      @options = Options.new(parts: [], seconds: DoctorMeasured::SECONDS, rates: DoctorLive::RATES, rounds: DoctorLive::ROUNDS, busy: false, output: File.join(Servers::HERE, "bench/results"))
      rest = parser.parse(arguments)
      raise ArgumentError, "#{rest.join(" ")}: name applications by --apps" if rest.any?

      choose
    rescue OptionParser::ParseError, ArgumentError => e
      warn "bin/bench doctor: #{e.message}"
      exit 64
    end

    def run
      Invocation.need_paceline("doctor")
      Processes.new.adopt_orphans
      Invocation.interrupt_by_signals
      return Generated::Run.new(@options, @command, PACKAGES).run if @options.generated

      found, progress = DoctorResults.new(proofs: [], real: [], live: []), Progress.new(steps)
      report = DoctorReport.new(found, facts: Machine.facts, versions: Machine.versions(PACKAGES), options: @options, command: @command, clock: progress)
      DoctorScene.open { |scene| measure(found, scene, progress) }
    ensure
      # What was measured is there also when the rest is interrupted.
      conclude(report, progress) if found&.any?
    end

    private

    # Which applications, and which parts of what is asked of them.
    def choose
      named = @options.apps
      @real = DoctorReal::ALL.select { |app| named.nil? || named.include?(app.name) }
      @faults = named ? DoctorFault.named(named - @real.map(&:name)) : DoctorFault.all
      @options.parts = [*DoctorTrial::PARTS, "real", *("live" unless named)] if @options.parts.empty?
      @real = [] unless @options.parts.include?("real")
      @faults = [] unless of_faults.any?
    end

    def of_faults = @options.parts & DoctorTrial::PARTS
    def live? = @options.parts.include?("live")
    def steps = @faults.sum { |fault| fault.missing ? 1 : of_faults.size } + (@real.size * 2) + (live? ? @options.rates.size * @options.rounds : 0)

    def measure(found, scene, progress)
      @faults.each { |fault| found.proofs << proof(fault, scene, progress) }
      @real.each { |app| found.real << DoctorReal.new(app, scene.work, scene.environment, seconds: @options.seconds, trials: @options.trials) { |what, done| progress.told(app.name, what, done) }.run }
      return unless live?

      live = DoctorLive.new(scene.work, scene.environment, rates: @options.rates, rounds: @options.rounds, busy: @options.busy) { |what, done| progress.told("live", what, done) }
      live.run { |row| found.live << row }
    end

    def proof(fault, scene, progress)
      DoctorTrial.new(fault, scene, of_faults, seconds: @options.seconds, busy: @options.busy) { |what, done| progress.told(fault.name, what, done) }.run
    end

    def conclude(report, progress)
      base = report.write(@options.output)
      progress.say ""
      puts report.markdown
      puts "\nWritten to #{base}.md and .json"
    end

    def parser
      OptionParser.new do |it|
        it.banner = "Usage: bin/bench doctor [options]"
        it.separator "\nApplications:"
        DoctorFault.all.each { |fault| it.separator format("    %-18s %s", fault.name, fault.title) }
        DoctorReal::ALL.each { |app| it.separator format("    %-18s %s", app.name, "#{app.title}, as it is") }
        it.separator "\nOptions:"
        it.on("--apps A,B", Array, "Only these") { |names| @options.apps = names }
        it.on("--faults", "Only what the doctor says of the faults (with other parts: these)") { @options.parts |= %w[fault] }
        it.on("--twins", "Only what it says of the clean twins") { @options.parts |= %w[twin] }
        it.on("--applied", "Only what the cures bring; the doctor is not asked") { @options.parts |= %w[applied] }
        it.on("--real", "Only what it says of whole applications, and what its first advice brings there") { @options.parts |= %w[real] }
        it.on("--live", "Only the response times of the brewery while the doctor works") { @options.parts |= %w[live] }
        it.on("--generated", "Only applications that are made from seeds, and what the doctor says of them") { @options.generated = true }
        it.on("--seeds N..M", "Seeds of --generated (#{Generated::Run::SEEDS}), or one") { |text| @options.seeds = Generated::Run.seeds(text) }
        it.on("--base BASE", Generated::Application::BASES.keys, "Of --generated: rails, sinatra or rack instead of the seed's own") { |base| @options.base = base }
        it.on("--database NAME", Generated::Application::DATABASES.keys, "Of --generated: sqlite (as it is without), or postgresql of Rails and Sinatra") { |name| @options.database = name }
        it.on("--rates A,B", Array, "Requests a second for --live (#{DoctorLive::RATES.join(",")})") { |rates| @options.rates = rates.map { |rate| Integer(rate, 10) } }
        it.on("--rounds N", Integer, "Rounds of --live (#{DoctorLive::ROUNDS})") { |n| @options.rounds = n }
        it.on("--busy", "Let the doctor not wait for a quiet machine") { @options.busy = true }
        it.on("--seconds N", Integer, "Of load for each application (#{DoctorMeasured::SECONDS})") { |n| @options.seconds = n }
        it.on("--quick", "Two seconds of load, one round of --live, short trials with --real; the result goes to tmp/bench/results") do
          @options.seconds, @options.rounds, @options.trials, @options.output = 2, 1, DoctorLive::TRIALS, File.join(Servers::HERE, "tmp/bench/results")
        end
        it.on("--output DIR", "Where the JSON and Markdown go (bench/results)") { |directory| @options.output = directory }
        Invocation.add_help(it)
      end
    end
  end
end

Bench::Invocation.of_command { Bench::Doctor.new(ARGV).run } if $PROGRAM_NAME == __FILE__
