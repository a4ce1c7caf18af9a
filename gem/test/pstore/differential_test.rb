# frozen_string_literal: true

require "helper"
require "tmpdir"
require "pstore"
require "paceline/pstore"
require_relative "support/programs"

# Random programs of transactions, by Ruby's PStore and by ours: the same values, names in the same order, errors, and what is one object stays
# one. `SEED=` and `COUNT=` for other and longer runs.
class PStoreDifferentialTest < Minitest::Test
  SEED = Integer(ENV.fetch("SEED", "1"))
  COUNT = Integer(ENV["COUNT"] || 150)

  %i[records marshal].each do |format|
    define_method("test_programs_in_the_format_#{format}") do
      skip "there is no store without the native part" if format == :records && !Paceline::Native
      random = Random.new(SEED)
      COUNT.times do |number|
        program = PStorePrograms.make(random)
        stock, ours = [::PStore, Paceline::PStore].map do |kind|
          Dir.mktmpdir do |folder|
            file = File.join(folder, "store")
            stores = Array.new(2) { kind == ::PStore ? kind.new(file) : kind.new(file, format: format) }
            PStorePrograms.run(program, stores)
          end
        end
        assert_equal stock, ours, "SEED=#{SEED}, program #{number}: #{program.inspect}"
      end
    end
  end
end
