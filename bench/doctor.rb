# frozen_string_literal: true

# `bin/bench doctor`: whether `paceline doctor` finds known faults: a small application for each, with its clean twin, and what the cure brings under
# `paceline bench`. Parts: what the doctor says of the faults, what it says of the twins (--twins), what cures bring (--applied); all, if none is named.
require "optparse"
require_relative "lib/machine"
require_relative "lib/progress"
require_relative "doctor/report"
require_relative "doctor/scene"
require_relative "doctor/trial"

module Bench
  class Doctor
    Options = Struct.new(:apps, :parts, :seconds, :output, keyword_init: true)
    PACKAGES = %w[puma ruby-sinatra].freeze

    def initialize(arguments)
      @command = ["bin/bench doctor", *arguments].join(" ")
      @options = Options.new(apps: DoctorFault.all.map(&:name), parts: [], seconds: DoctorMeasured::SECONDS, output: File.join(Servers::HERE, "bench/results"))
      rest = parser.parse(arguments)
      raise ArgumentError, "#{rest.join(" ")}: name applications by --apps" if rest.any?

      @options.parts = DoctorTrial::PARTS if @options.parts.empty?
      @faults = DoctorFault.named(@options.apps)
    rescue OptionParser::ParseError, ArgumentError => e
      warn "bin/bench doctor: #{e.message}"
      exit 64
    end

    def run
      abort "bin/bench doctor: there is no #{Servers.paceline}: run `cargo build --release --locked`, or set PACELINE_BIN" unless File.executable?(Servers.paceline)
      Processes.new.adopt_orphans
      %w[TERM HUP].each { |signal| trap(signal) { raise Interrupt } }
      proofs, progress = [], Progress.new(@faults.sum { |fault| fault.missing ? 1 : @options.parts.size })
      report = DoctorReport.new(proofs, facts: Machine.facts, versions: Machine.versions(PACKAGES), options: @options, command: @command, clock: progress)
      DoctorScene.open { |scene| @faults.each { |fault| proofs << proof(fault, scene, progress) } }
    ensure
      # What was measured is there also when the rest is interrupted.
      conclude(report, progress) if proofs&.any?
    end

    private

    def proof(fault, scene, progress)
      DoctorTrial.new(fault, scene, @options.parts, seconds: @options.seconds) { |what, done| progress.told(fault.name, what, done) }.run
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
        it.separator "\nOptions:"
        it.on("--apps A,B", Array, "Only these") { |names| @options.apps = names }
        it.on("--faults", "Only what the doctor says of the faults (with --twins, --applied: these parts)") { @options.parts |= %w[fault] }
        it.on("--twins", "Only what it says of the clean twins") { @options.parts |= %w[twin] }
        it.on("--applied", "Only what the cures bring; the doctor is not asked") { @options.parts |= %w[applied] }
        it.on("--seconds N", Integer, "Of load for each application (#{DoctorMeasured::SECONDS})") { |n| @options.seconds = n }
        it.on("--quick", "Two seconds of load; the result goes to tmp/bench/results") do
          @options.seconds, @options.output = 2, File.join(Servers::HERE, "tmp/bench/results")
        end
        it.on("--output DIR", "Where the JSON and Markdown go (bench/results)") { |directory| @options.output = directory }
        it.on_tail("-h", "--help", "This text") do
          puts it
          exit
        end
      end
    end
  end
end

if $PROGRAM_NAME == __FILE__
  begin
    Bench::Doctor.new(ARGV).run
  rescue Interrupt
    warn "\nInterrupted; every server is stopped."
    exit 130
  end
end
