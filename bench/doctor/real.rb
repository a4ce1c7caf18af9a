# frozen_string_literal: true

# `paceline doctor` on whole applications: the brewery, Debian 12's Redmine 5 and Debian 13's Redmine 6 (bin/trixie). Nobody has built a fault into them: what is
# advised is listed with its figures, the database must be the same byte for byte, and what the first advice with a known cure brings is measured after it was
# applied to a copy. Never changes an application but that copy.
require "open3"
require_relative "../lib/apps"
require_relative "measured"
require_relative "trial"

module Bench
  # An application. PATHS: what is replayed. CURES: {kind and route => [file, what stands there, what to put there]}, for advice that only the author of the code can
  # follow. SOURCES: the folder that these files come from.
  DoctorRealApp = Struct.new(:name, :title, :preparation, :inside, :paths, :cures, :sources, keyword_init: true) do
    # Command words before those that are run in the application's system.
    def prefix = inside ? [File.join(Servers::HERE, "bin/trixie"), "run"] : []

    # Why it can't be asked; nil if it can.
    def missing
      return unless inside && !system(*prefix, "test", "-d", "/usr/share/redmine/app", %i[out err] => File::NULL)

      "there is no Redmine of Debian 13 beside this machine: run bin/trixie setup (as root)"
    end
  end

  # SAID: what the doctor says; APPLIED: the advice whose cure was measured; GAINS: a DoctorGain of each round.
  DoctorRealProof = Struct.new(:app, :said, :unchanged, :applied, :gains, :missing, :failures, keyword_init: true) do
    def gain = (DoctorGain.mean(gains) if gains&.any?)
    def name = app.name
    def predicted = applied&.predicted
    def predicted_saved = applied&.predicted_saved
    def bound = applied&.bound
    def miss = gain && DoctorSums.miss(predicted, gain.share)
    def holds? = gain && DoctorSums.holds?(predicted, gain.share, bound)
  end

  class DoctorReal
    REDMINE = ["/projects", "/projects/brewhouse/issues", "/issues/1", "/projects/brewhouse/issues.atom"].freeze
    CALLS = <<~'RUBY'.gsub(/^/, "    ")
      require "paceline/http"
      answers = Paceline::HTTP.all { |calls| Suppliers::GOODS.each_index { |number| calls.get("#{suppliers.url}/prices/#{number}", ca_file: suppliers.ca_file) } }
      @prices = Suppliers::GOODS.zip(answers.map(&:body)).to_h
    RUBY
    # Issues with their attachments, in Redmine 5 and 6.
    ISSUES = { "repeated_queries GET /projects/brewhouse/issues.atom" =>
                 ["app/controllers/issues_controller.rb", /(?<=@query\.issues\(:limit => Setting\.feeds_limit\.to_i)/, ", :include => [:attachments]"] }.freeze
    ALL = [
      DoctorRealApp.new(name: "brewery", title: "Rails, 200 beers", preparation: :brewery, paths: %w[/provision /feed /beers],
                        sources: File.join(Servers::HERE, "examples/brewery"),
                        cures: { "serial_calls GET /provision" => ["app/controllers/pages_controller.rb", /^    @prices = .*?^    end\n/m, CALLS] }),
      DoctorRealApp.new(name: "redmine5", title: "Redmine of Debian 12", preparation: :redmine, paths: REDMINE, cures: ISSUES, sources: "/usr/share/redmine"),
      DoctorRealApp.new(name: "redmine6", title: "Redmine of Debian 13", preparation: :redmine6, inside: true, paths: REDMINE, cures: ISSUES, sources: "/usr/share/redmine")
    ].freeze
    DATABASE = "db/production.sqlite3"
    # What the applications write, which belongs in no git tree.
    WRITTEN = ["/log", "/tmp", "/files", "/db/*.sqlite3*"].freeze
    # How often the application is started as it is and cured: two processes that are alike differ by some percent.
    ROUNDS = 5
    # Two copies, whose names are equally long: the same Redmine in another folder was 2.5 % faster.
    VARIANTS = %w[as-is cured].freeze
    # As in DoctorMeasured. A large heap goes on growing for some hundred requests, or is collected whole every few until it is given room: that made a twentieth of
    # the time of a Redmine without a change and with another gem in its Gemfile.
    STEADY = 500
    LONGEST_WARM_UP = 40
    # Seconds after which the doctor is ended.
    LIMIT = 300

    class Failed < StandardError; end

    # SECONDS of load; TRIALS: rounds of each of the doctor's trials, by default until it is decided. The block is given what is being done, and whether it is done.
    def initialize(app, work, environment, seconds:, trials: nil, &told)
      @app = app
      @work = work
      @environment = environment
      @seconds = seconds
      @trials = trials ? ["--rounds", trials.to_s] : []
      @told = told
    end

    def run
      proof = DoctorRealProof.new(app: @app, missing: @app.missing, failures: {})
      proof.missing ? 2.times { @told.call("left out: #{proof.missing}", true) } : prove(proof)
      proof
    end

    private

    def prove(proof)
      folder = prepared
      @as_is, @cured = VARIANTS.map { |variant| copied(folder, variant) }
      part(proof, "doctor") { proof.said = diagnose(proof) }
      part(proof, "applied") { measure(proof) }
    end

    def part(proof, name)
      @told.call(name, false)
      yield
    rescue Failed, DoctorSays::Failed, DoctorMeasured::Failed, RunningServer::Failed => e
      proof.failures[name] = e.message.strip
    ensure
      @told.call(name, true)
    end

    def prepared = Apps.prepare(@app.preparation).directory

    # Another folder of it, in a git tree, where `paceline doctor apply` writes. Its database is its own.
    def copied(folder, variant)
      target = "#{folder}-#{variant}"
      FileUtils.rm_rf(target)
      FileUtils.cp_r(folder, target)
      %w[Gemfile config/database.yml].map { |name| File.join(target, name) }.each { |path| File.write(path, File.read(path).gsub(folder, target)) }
      git(target, "init", "--quiet")
      File.write(File.join(target, ".git/info/exclude"), WRITTEN.join("\n"))
      git(target, "add", "--all")
      git(target, "-c", "user.name=bench", "-c", "user.email=bench@localhost", "commit", "--quiet", "--message", "As it is")
      target
    end

    def git(folder, *words)
      text, status = Open3.capture2e("git", "-c", "core.excludesFile=", *words, chdir: folder)
      raise Failed, "git #{words.first}: #{text.lines.last}" unless status.success?
    end

    def diagnose(proof)
      before = checksum
      paths = @app.paths.flat_map { |path| ["--path", path] }
      DoctorSays.ask(@cured, ["--offline", @cured, "--server", "paceline", *@trials, *paths], environment(@cured), limit: LIMIT, program: [*@app.prefix, program])
    ensure
      proof.unchanged = checksum == before
    end

    def checksum = Digest::SHA256.file(File.join(@cured, DATABASE)).hexdigest

    def measure(proof)
      return unless (proof.applied = proof.said&.advice.to_a.find { |advice| apply(advice) })

      page = Page.new(path(proof.applied))
      proof.gains = Array.new(@trials.empty? ? ROUNDS : 1) { beside(page) }
    end

    # Both, started afresh.
    def beside(page)
      servers = VARIANTS.zip([@as_is, @cured]).map { |variant, folder| server(variant, folder) }
      servers.each(&:start)
      DoctorMeasured.new(page, nil, seconds: @seconds, steady: STEADY, longest_warm_up: LONGEST_WARM_UP).of(servers)
    ensure
      servers&.each(&:stop)
    end

    # The page that an advice is about.
    def path(advice) = @app.paths.find { |path| advice.about?(path) } || @app.paths.first

    # Whether there is a way to.
    def apply(advice)
      file, before, after = @app.cures[advice.to_s]
      if file
        path = File.join(@cured, file)
        File.write(path, File.read(path).sub(before) { after })
      elsif advice.written
        text, status = Open3.capture2e(environment(@cured), *@app.prefix, program, "doctor", "apply", advice.number.to_s, chdir: @cured)
        raise Failed, "paceline doctor apply: #{text.lines.first}" unless status.success? && text.include?("changed")
        use_own_gem
      end
      file || advice.written
    end

    # In place of `bundle install`, which the doctor asks for where it has put the gem into the Gemfile: there may be no registry.
    def use_own_gem
      gemfile = File.join(@cured, "Gemfile")
      File.write(gemfile, File.read(gemfile).sub(/^gem "paceline"$/) { |line| "#{line}, path: #{File.join(Servers::HERE, "gem").dump}" })
    end

    # What Debian 13 sees: the checkout, and nothing else of this machine.
    def program
      return Servers.paceline if !@app.inside || Servers.paceline.start_with?("#{Servers::HERE}/")

      File.join(Apps::WORK, "paceline").tap { |path| FileUtils.cp(Servers.paceline, path, preserve: true) unless File.exist?(path) && FileUtils.identical?(path, Servers.paceline) }
    end

    def server(variant, folder)
      words = [*@app.prefix, program]
      server = Server.new(name: "#{@app.name}-#{variant}", worker: /\Apaceline worker/, workers: 1, threads: 5, command: ->(port, _) { [*words, "-b", "tcp://127.0.0.1:#{port}", "-w", 1, "-q", *Servers::AS_ROOT] })
      ReapedServer.new(server, App.new(name: @app.name, directory: folder, environment: environment(folder)), File.join(@work, "servers"), @app.paths.last)
    end

    def environment(folder)
      gemfile = File.join(folder, "Gemfile")
      @environment.merge("RAILS_ENV" => "production", "RACK_ENV" => "production").merge(@app.name == "brewery" ? {} : { "BUNDLE_GEMFILE" => gemfile })
    end

    # As much of a DoctorFault as a measurement of requests asks for.
    Page = Struct.new(:path) do
      def paths = [path]
      def same_bytes? = true
      def cookies? = false
      def clients = 1
      def measure = "request"
    end
    private_constant :Page
  end
end
