# frozen_string_literal: true

# What is said where the native part is missing, and `paceline native`, each in a copy of the gem, as it is installed: a checkout has a script for it.
require "helper"
require "fileutils"
require "paceline/native"
require "rbconfig"

class NativePartTest < Paceline::Test
  GEM = File.expand_path("..", __dir__)
  SAY = 'require "paceline/native"; print Paceline::NativePart.missing.inspect'

  # Yields a folder with the gem's files, without a native part.
  def installed
    in_tmpdir do |dir|
      FileUtils.mkdir_p(File.join(dir, "lib"))
      FileUtils.cp_r(File.join(GEM, "lib", "paceline"), File.join(dir, "lib"))
      FileUtils.rm_rf(File.join(dir, "lib/paceline/native"))
      system("cp", "-rL", File.join(GEM, "ext"), dir, exception: true) # what a checkout links to is in the gem
      yield dir
    end
  end

  def ruby(dir, *arguments, env: {})
    Open3.capture2e({ "RUBYOPT" => nil, "PACELINE_NATIVE" => nil }.merge(env), RbConfig.ruby, "-I#{dir}/lib", *arguments)
  end

  def test_the_reason_names_this_ruby_and_what_to_do
    installed do |dir|
      said, = ruby(dir, "-e", SAY)
      assert_equal "this installation has none for Ruby #{RUBY_VERSION[/\A\d+\.\d+/]} on #{RbConfig::CONFIG["arch"]}: install a C compiler, make and Ruby's headers, then run `paceline native`", said[1..-2]
      assert_equal '"PACELINE_NATIVE=0 leaves it out"', ruby(dir, "-e", SAY, env: { "PACELINE_NATIVE" => "0" })[0]
    end
  end

  def test_a_file_that_does_not_fit_is_named_once_and_left_out
    installed do |dir|
      file = File.join(dir, "lib/paceline/native/#{RbConfig::CONFIG["ruby_version"]}-#{RbConfig::CONFIG["arch"]}/paceline_native.#{RbConfig::CONFIG["DLEXT"]}")
      FileUtils.mkdir_p(File.dirname(file))
      File.write(file, "not a library")
      said, status = ruby(dir, "-e", SAY)
      assert_predicate status, :success?
      assert_match(/\Apaceline: #{Regexp.escape(file)} does not fit this Ruby \(.*\); continuing without it\n"#{Regexp.escape(file)} does not fit/, said)
    end
  end

  def test_without_the_native_part_pstore_is_rubys_own_file_which_becomes_one_of_records_later
    installed do |dir|
      file = File.join(dir, "data.pstore")
      write = ->(value) { "require 'paceline/pstore'; s = Paceline::PStore.new(#{file.inspect}); s.transaction { s[:a] = #{value} }; print s.transaction(true) { s[:a] }" }
      assert_equal "1", ruby(dir, "-e", write.(1))[0]
      assert_equal({ a: 1 }, Marshal.load(File.binread(file)))

      skip "the native part is not built for this Ruby, or switched off" unless Paceline::NativePart.store?
      assert_equal "2", ruby(GEM, "-e", write.(2))[0]
      said, status = ruby(dir, "-e", write.(3))
      refute_predicate status, :success?
      assert_match(/data\.pstore, a file of records, needs the native part of the gem paceline: this installation has none .*then run `paceline native` \(Paceline::Records::Error\)/, said)
      assert_equal "4", ruby(GEM, "-e", write.(4))[0]
    end
  end

  def test_it_is_compiled_into_the_installed_gem_where_there_is_a_compiler
    require "paceline/native_build"
    skip "what it needs is not here: #{Paceline::NativeBuild.lacks.join(", ")}" unless Paceline::NativeBuild.lacks.empty?
    installed do |dir|
      # Without cargo: the half in C is built always. `env` would show another home than this user's, where cargo may be.
      env = { "PATH" => "/usr/bin:/bin", "HOME" => dir }
      skip "cargo is in /usr/bin" if File.exist?("/usr/bin/cargo")
      said, status = ruby(dir, File.join(dir, "lib/paceline/native_build.rb"), env: env)
      assert_predicate status, :success?, said
      assert_match(/\Abuilt for Ruby #{Regexp.escape(RUBY_VERSION)}: #{Regexp.escape(dir)}\S+, without its half in Rust \(stores, XML\), which needs cargo\n\z/, said)
      assert_match(/\A"its half in Rust \(stores, XML\) was not built: install .* and cargo, then run `paceline native`"\z/, ruby(dir, "-e", SAY)[0])
    end
  end

  def test_what_compiling_lacks_is_named
    installed do |dir|
      said, status = ruby(dir, File.join(dir, "lib/paceline/native_build.rb"), env: { "PATH" => dir })
      assert_equal 1, status.exitstatus
      assert_match(/\Apaceline: the native part is not built: .*make.* missing: install \w+, then run `paceline native`$/, said)
      assert_equal 2, ruby(dir, File.join(dir, "lib/paceline/native_build.rb"), "x")[1].exitstatus
    end
  end
end
