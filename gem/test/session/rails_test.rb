# frozen_string_literal: true

require "session/support/backends"
require "open3"

# ActionDispatch::Session::PacelineStore in a Rails application: support/rails_cases.rb, for each backend in a process of its own.
class SessionRailsTest < Minitest::Test
  extend SessionBackends
  include SessionBackends::Looks

  SUPPORT = File.expand_path("support", __dir__)
  LIB = File.expand_path("../../lib", __dir__)
  HERE = %w[railties actionpack].all? { |name| Gem::Specification.find_all_by_name(name).any? }

  def run_cases(store, **env)
    skip "Rails is not here" unless HERE
    Dir.mktmpdir do |folder|
      env = { "FOLDER" => folder, "STORE" => store }.merge(env)
      out, status = Open3.capture2e(env, RbConfig.ruby, "-W0", "-I#{LIB}", File.join(SUPPORT, "rails_cases.rb"), chdir: "/")
      assert status.success?, out
      assert_match(/^1[5-9] runs, \d+ assertions, 0 failures, 0 errors, 0 skips/, out)
      yield folder if block_given?
    end
  end

  on_each("rails_cases") { |store| run_cases(store) }
  on_each("rails_cases_as_json") { |store| run_cases(store, "SERIALIZER" => "json") }

  # Relative to Rails.root, for its owner alone.
  def test_where_the_file_is
    skip "there is no store without the native part" unless Paceline::Native
    run_cases("storage/sessions.paceline") do |folder|
      assert_equal 0o600, File.stat(File.join(folder, "storage/sessions.paceline")).mode & 0o777
      assert_equal 0o600, File.stat(File.join(folder, "storage/sessions.paceline-lock")).mode & 0o777
    end
  end
end
