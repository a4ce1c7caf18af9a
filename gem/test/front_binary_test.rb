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
end
