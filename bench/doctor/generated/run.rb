# frozen_string_literal: true

# `bin/bench doctor --generated`: the applications of some seeds, one after the other.
require_relative "../../lib/machine"
require_relative "../../lib/progress"
require_relative "postgresql_server"
require_relative "proof"
require_relative "report"

module Bench
  module Generated
    class Run
      SEEDS = (1..20)
      # Preparing, the two runs of the doctor, and the load.
      STEPS = 4

      # OPTIONS: of `bin/bench doctor`.
      def initialize(options, command, packages)
        @options = options
        @command = command
        @packages = packages
        @seeds = options.seeds || SEEDS
      end

      def run
        proofs, progress = [], Progress.new(@seeds.size * STEPS)
        report = Report.new(proofs, facts: Machine.facts, versions: Machine.versions(@packages), options: @options, command: @command, clock: progress)
        DoctorScene.open do |scene|
          server = PostgresqlServer.new if database == "postgresql"
          scene.environment.merge!(server.environment) if server
          @seeds.each { |seed| proofs << proof(seed, scene, progress) }
        ensure
          server&.stop
        end
      ensure
        # What was found is there also when the rest is interrupted.
        conclude(report) if proofs&.any?
      end

      # "7..9" or "7".
      def self.seeds(text)
        first, last = text.split("..", 2).map { |number| Integer(number, 10) }
        (first..(last || first))
      end

      private

      def database = @options.database || "sqlite"

      def proof(seed, scene, progress)
        app = Application.new(seed, @options.base, database: database)
        proof = Trial.new(app, scene, seconds: [@options.seconds, Trial::SECONDS].min) { |what, done| progress.told("#{app.name} #{app.title}", what, done) }.run
        progress.say "#{app.name}: first #{proof.right_first?.inspect}, place #{proof.right_place?.inspect}, twin #{proof.twin_silent?.inspect}: #{proof.advice.map { |one| "#{one} #{one.at}" }.join("; ")}"
        proof
      end

      def conclude(report)
        base = report.write(@options.output)
        puts report.markdown
        puts "\nWritten to #{base}.md and .json"
      end
    end
  end
end
