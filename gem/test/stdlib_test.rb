# frozen_string_literal: true

# What the gem requires of Ruby's standard library, and of gems that it does not depend on. More and more of the library becomes gems that a bundle may lack (logger,
# pstore, ostruct, benchmark, base64, csv and others): none of these may be needed.
require "helper"
require "support/requires"

class StdlibTest < Minitest::Test
  LIB = File.expand_path("../lib", __dir__)
  # Stays with Ruby: what every Ruby from 3.1 to 4.0 has without a gem that must be named in a Gemfile.
  STAYS = %w[bundler bundler/setup digest erb etc fileutils json net/http open3 openssl optparse prism rbconfig resolv ripper securerandom socket socket.so stringio strscan tempfile
             tmpdir uri].freeze
  # Of the application's bundle, where it has them; the files that name them are loaded for its sake.
  BUNDLE = %w[action_dispatch action_view active_record active_support builder concurrent faraday localhost puma rack rackup rails redis sinatra].freeze
  # Where it may be missing: the file rescues that.
  OPTIONAL = { "paceline/pstore.rb" => %w[pstore], "paceline/xml/reading/parse_error.rb" => %w[rexml/parseexception] }.freeze

  def test_nothing_is_required_that_ruby_may_lack
    found = Dir.glob("**/*.rb", base: LIB).to_h do |file|
      names = Requires.in(File.read(File.join(LIB, file))).filter_map { |method, name, _| name if method == "require" && name != Requires::COMPUTED }
      [file, names.reject { |name| name.start_with?("paceline/") || STAYS.include?(name) || BUNDLE.include?(name[%r{\A[^/]+}]) } - OPTIONAL.fetch(file, [])]
    end
    assert_operator found.size, :>, 200, "the gem's files are not where this test looks"
    assert_equal({}, found.reject { |_, names| names.empty? })
  end

  def test_what_may_be_missing_is_rescued
    OPTIONAL.each do |file, names|
      code = <<~RUBY
        module Kernel
          alias_method :asked, :require
          def require(name) = #{names.inspect}.include?(name) ? raise(LoadError, name) : asked(name)
        end
        require #{File.join(LIB, file).inspect}
      RUBY
      out, status = Open3.capture2e({ "RUBYOPT" => nil }, RbConfig.ruby, "-I#{LIB}", "-e", code)
      assert_predicate status, :success?, out
    end
  end
end
