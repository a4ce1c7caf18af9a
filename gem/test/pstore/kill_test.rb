# frozen_string_literal: true

require "helper"
require "open3"
require "paceline/pstore"
require_relative "support/faults"

# Writers killed at any moment, half of them within a commit: nothing that was committed is lost, nothing is half there. `COUNT=10000` for as
# many kills of each format and mode (a short run of them is one of the tests), `SEED=` for the same once more.
class PStoreKillTest < Minitest::Test
  COUNT = Integer(ENV["COUNT"] || 30)
  SEED = Integer(ENV["SEED"] || Random.new_seed % 1_000_000)
  TRIALS = File.expand_path("support/kill_trials.rb", __dir__)

  %i[records marshal].product([false, true]).each do |format, ultra_safe|
    define_method("test_what_was_committed_outlives_its_process_#{format}#{"_ultra_safe" if ultra_safe}") do
      skip "there is no store without the native part" unless Paceline::Native
      skip "no C compiler (cc): kills can't be aimed at a commit" unless Faults.library
      Dir.mktmpdir do |folder|
        file = File.join(File.realpath(folder), "store")
        environment = Faults.environment(file, Faults::Orders.new("#{folder}/orders"))
        said, status = Open3.capture2e(environment, RbConfig.ruby, "-I#{File.expand_path("../../lib", __dir__)}", TRIALS, file, format.to_s,
                                       ultra_safe ? "1" : "0", COUNT.to_s, SEED.to_s)
        assert status.success?, said
        puts "#{format}#{", ultra_safe" if ultra_safe}: #{said}" if ENV["COUNT"]
      end
    end
  end
end
