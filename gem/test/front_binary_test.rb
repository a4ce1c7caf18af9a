# frozen_string_literal: true

require "helper"
require "paceline/front_binary"

class FrontBinaryTest < Paceline::Test
  def test_front_is_no_stub_and_never_guessed_when_named
    in_tmpdir("stub" => "#!/bin/sh\n", "plain" => "x") do |dir|
      File.chmod(0o755, File.join(dir, "stub"))
      refute Paceline::FrontBinary.program?(File.join(dir, "stub"))
      refute Paceline::FrontBinary.program?(File.join(dir, "plain"))
      refute Paceline::FrontBinary.program?(dir)
      assert Paceline::FrontBinary.program?(RbConfig.ruby)
    end
  end

  def test_a_checkout_has_its_release_build_first_then_the_demo_s
    places = Paceline::FrontBinary.candidates.filter_map { |path| path[%r{/target/(\w+)/paceline\z}, 1] }
    assert_equal %w[release demo debug], places.first(3)
    assert_match(%r{\Anothing is built yet in /.*: run `bin/build` there, or `bin/build demo`}, Paceline::FrontBinary.missing)
  end

  def test_missing_program_is_a_sentence_that_names_the_platform_and_what_to_do
    elsewhere = Paceline::FrontBinary.missing("arm64-darwin24", checkout: false)
    assert_match(/no program for arm64-darwin24, only for x86_64-linux, aarch64-linux: serve with another server/, elsewhere)
    assert_match(/without the program for x86_64-linux: run `bundle lock --add-platform x86_64-linux/, Paceline::FrontBinary.missing("x86_64-linux", checkout: false))
  end
end
