# frozen_string_literal: true

# Runs a library's own tests twice: as they are, and with Paceline's in the library's place. Every test has to end the same way, but for those that the
# suite names with a reason. It knows Minitest, test-unit (also Ruby's
# own), RSpec and MSpec (a file may be a folder for the last two), and fetches nothing (debian_source.rb does that).
#
#   suite = Suites::BothWays.new("Builder", exceptions: { "TestX#test_y" => "why it ends otherwise" })
#   suite.run(DIR, "test/test_x.rb", flags: %w[-Ilib], both: ["require 'builder'"], ours: ["..."])
#   suite.conclude    # exits 1 if a test differs that is no exception, or an exception does not differ
require "fileutils"
require "open3"
require "rbconfig"
require "tmpdir"

module Suites
  class BothWays
    GEM = File.expand_path("../../gem/lib", __dir__)
    HOW = { "." => "passed", "F" => "failed", "E" => "had errors", "S" => "skipped", "P" => "skipped", "O" => "skipped" }.freeze
    ENDED = /^(\S.*) ([.FESPO])$/

    # Written for each test by the process that runs it: what a run prints differs from library to library.
    NOTING = {
      minitest: <<~RUBY,
        require "minitest"
        Minitest::CompositeReporter.prepend(Module.new do
          def record(result)
            File.write(ENV.fetch("SUITE_OUTCOMES"), [result.class_name, "#", result.name, " ", result.result_code, "\\n"].join, mode: "a")
            super
          end
        end)
      RUBY
      test_unit: <<~RUBY,
        require "test/unit"
        require "test/unit/testresult"
        require "test/unit/testcase"
        Test::Unit::TestResult.prepend(Module.new do
          def faults_of_test = @faults_of_test ||= {}
          def add_pending(fault) = (faults_of_test[fault.test_name] = "P"; super)
          def add_omission(fault) = (faults_of_test[fault.test_name] = "O"; super)
          def add_failure(fault) = (faults_of_test[fault.test_name] = "F"; super)
          def add_error(fault) = (faults_of_test[fault.test_name] = "E"; super)
        end)
        Test::Unit::TestCase.prepend(Module.new do
          def run(result, *)
            super
          ensure
            File.write(ENV.fetch("SUITE_OUTCOMES"), [self.class.name, "#", method_name, " ", result.faults_of_test.fetch(name, "."), "\\n"].join, mode: "a")
          end
        end)
      RUBY
      # The one that Ruby's own tests bring with them.
      ruby: <<~RUBY,
        require "test/unit"
        Test::Unit::Runner.prepend(Module.new do
          def record(suite, method, assertions, time, error)
            how = { NilClass => ".", Test::Unit::PendedError => "P", Test::Unit::AssertionFailedError => "F" }.fetch(error.class, "E")
            File.write(ENV.fetch("SUITE_OUTCOMES"), [suite.name, "#", method, " ", how, "\n"].join, mode: "a")
            super
          end
        end)
      RUBY
      rspec: <<~RUBY,
        require "rspec/core"
        noting = Object.new
        { example_passed: ".", example_failed: "F", example_pending: "P" }.each do |event, how|
          noting.define_singleton_method(event) do |notification|
            example = notification.example
            File.write(ENV.fetch("SUITE_OUTCOMES"), [example.id, " ", example.full_description.split.join(" "), " ", how, "\n"].join, mode: "a")
          end
        end
        RSpec.configuration.reporter.register_listener(noting, :example_passed, :example_failed, :example_pending)
      RUBY
      mspec: <<~RUBY
        ENV["MSPEC_RUNNER"] = "1"
        require "mspec"
        noting = Object.new
        def noting.before(_state) = @how = "."
        def noting.exception(failure) = @how = failure.failure? ? "F" : "E"
        def noting.after(state) = File.write(ENV.fetch("SUITE_OUTCOMES"), [state.description, " ", @how, "\n"].join, mode: "a")
        %i[before exception after].each { |event| MSpec.register(event, noting) }
      RUBY
    }.freeze
    # How a file is run, if not by loading it.
    RUNNING = {
      rspec: ->(file) { "exit RSpec::Core::Runner.run([#{file.dump}, '--seed', '1', '--options', File::NULL])" },
      mspec: ->(file) { "MSpec.register_files(Dir.glob([#{file.dump}, #{"#{file}/**/*_spec.rb".dump}]).select { |one| File.file?(one) }.sort); MSpec.process" }
    }.freeze

    # `exceptions`: {"TestClass#test_name" => why it ends otherwise}. `within`: seconds for one file.
    def initialize(name, exceptions: {}, within: 120)
      @name = name
      @exceptions = exceptions
      @within = within
      @totals = Hash.new(0)
      @differing = {}
      @empty = []
    end

    # Runs FILE of FOLDER both ways. `both` and `ours` are lines of Ruby that come before it: in both runs, and in the one with ours.
    # `stock`: lines for the run without ours.
    def run(folder, file, flags: [], both: [], ours: [], stock: [], runner: :minitest)
      without = outcomes(folder, file, flags, [*both, *stock], runner)
      with = outcomes(folder, file, [*flags, "-I#{GEM}"], [*both, *ours], runner)
      without.each_value { |how| @totals[HOW.fetch(how)] += 1 }
      differ = (without.keys | with.keys).reject { |test| without[test] == with[test] }
      puts "#{file.delete_prefix("#{folder}/")}: #{without.size} tests#{", #{differ.size} differ" if differ.any?}"
      @empty << file if without.empty?
      differ.each { |test| @differing[test] = "#{file}: #{test}: #{without[test] || "not run"} as it is, #{with[test] || "not run"} with ours" }
    end

    # Says how it went. Exits 1 if it did not go as it should.
    def conclude
      unexpected = @differing.reject { |test, _| @exceptions.key?(test) }.values
      unexpected.concat(@empty.map { |file| "#{file}: no test ran" })
      unexpected.concat((@exceptions.keys - @differing.keys).map { |test| "#{test}: ends the same way; it is no exception any more" })
      unexpected << "no test ran" if @totals.empty?
      @differing.slice(*@exceptions.keys).each { |test, line| puts "  an exception: #{line}: #{@exceptions[test]}" }
      puts "#{@name}: #{@totals.map { |how, count| "#{count} #{how}" }.join(", ")}, as they are", *unexpected
      puts "#{@totals.values.sum - @differing.size} passed, #{unexpected.size} failed"
      exit 1 if unexpected.any?
    end

    private

    # {test's name => how it ended}
    def outcomes(folder, file, flags, first, runner)
      Dir.mktmpdir do |work|
        # The gems are those that are installed, whatever the checkout's Gemfile says.
        FileUtils.mkdir_p(File.join(work, "bundler"))
        File.write(File.join(work, "bundler/setup.rb"), "")
        noted = File.join(work, "outcomes")
        path = File.expand_path(file, folder)
        program = [NOTING.fetch(runner), *first, RUNNING.key?(runner) ? RUNNING[runner].call(path) : "load #{path.dump}"].join("\n")
        seed = runner == :minitest ? %w[--seed 1] : []
        environment = { "MT_NO_PLUGINS" => "1", "SUITE_OUTCOMES" => noted, "PARALLEL_WORKERS" => "1", "RAILS_ENV" => nil, "RUBYOPT" => nil, "TMPDIR" => work }
        output, = Open3.capture2e(environment, "timeout", "-k", "5", @within.to_s, RbConfig.ruby, "-I#{work}", *flags, "-e", program, "--", *seed, chdir: folder)
        found = File.exist?(noted) ? File.read(noted).scan(ENDED).to_h : {}
        warn output.lines.last(8).join if found.empty? || ENV["SUITE_OUTPUT"]
        found
      end
    end
  end
end
