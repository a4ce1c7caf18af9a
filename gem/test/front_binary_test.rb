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
    assert_match(/no program for arm64-darwin24, only for x86_64-linux-gnu, aarch64-linux-gnu: serve with another server/, elsewhere)
    assert_match(/no program for x86_64-linux-musl, only for x86_64-linux-gnu/, Paceline::FrontBinary.missing("x86_64-linux-musl", checkout: false))
    assert_match(/without the program for x86_64-linux-gnu: run `bundle lock --add-platform x86_64-linux-gnu/, Paceline::FrontBinary.missing("x86_64-linux-gnu", checkout: false))
  end

  def test_a_program_that_this_machine_cannot_run_is_named_with_the_reason
    skip "this Ruby is no ELF program of 64 bits" unless File.binread(RbConfig.ruby, 6) == "\x7FELF\x02\x01".b
    in_tmpdir({}) do |dir|
      assert_nil Paceline::FrontBinary.unfit(RbConfig.ruby)
      ruby = File.binread(RbConfig.ruby)
      variant = lambda do |&change|
        path = File.join(dir, "paceline")
        File.binwrite(path, ruby.dup.tap(&change))
        File.chmod(0o755, path)
        path
      end

      loader = ruby[%r{/lib[^\0]*/ld-[^\0]*}n]
      absent = loader.sub(/ld-/, "xx-")
      musl = variant.call { |bytes| bytes.sub!(loader, absent) }
      assert_match(/needs #{Regexp.escape(absent)}, the loader of another C library/, Paceline::FrontBinary.unfit(musl))
      error = with_program(musl) { assert_raises(Paceline::FrontBinary::Missing) { Paceline::FrontBinary.find } }
      assert_match(/can't be run here, since it needs .*: serve with another server here, such as Puma, or set PACELINE_BIN/, error.message)

      assert_match(/another processor/, Paceline::FrontBinary.unfit(variant.call { |bytes| bytes.setbyte(18, bytes.getbyte(18) ^ 1) }))
      # What is damaged or cut is tried, and the system says why it can't be run.
      [0, 5, 63, 64, 100, 600].each { |size| Paceline::FrontBinary.unfit(variant.call { |bytes| bytes.slice!(size..) }) }
      assert_nil Paceline::FrontBinary.unfit(variant.call { |bytes| bytes[32, 8] = "\xFF".b * 7 << "\x7F" })
      assert_nil Paceline::FrontBinary.unfit(variant.call { |bytes| bytes[32, 8] = "\xFF".b * 8 })
    end
  end

  private

  def with_program(path)
    before = ENV["PACELINE_BIN"]
    ENV["PACELINE_BIN"] = path
    yield
  ensure
    ENV["PACELINE_BIN"] = before
  end
end
