# frozen_string_literal: true

require_relative "support/shadow_case"

# A request sends no signal to a process that serves.
class ShadowSignalsTest < ShadowCase
  # One that does nothing.
  HEAD = <<~RUBY
    OTHER = #{Process.pid}
    def outcome
      yield.to_s
    rescue SystemCallError => e
      e.class.name
    end
  RUBY

  def with_codes(codes)
    with_shadow("#{HEAD}#{routes(codes.transform_values { |code| "outcome { #{code} }" })}") { |shadow| codes.each_key { |path| yield path, shadow.get(path) } }
  end

  def test_others_get_none
    codes = { "/other" => "Process.kill(:CONT, OTHER)", "/several" => "Process.kill('CONT', Process.pid, OTHER)", "/group" => "Process.kill(:CONT, 0)", "/groups" => "Process.kill('-CONT', Process.getpgrp)",
              "/own group" => "Process.kill('-CONT', Process.pid)", "/negative" => "Process.kill(:CONT, -Process.getpgrp)" }
    with_codes(codes) do |path, result|
      assert_equal ["Errno::EPERM", "signal"], [result["text"], result.dig("write", "kind")], path
      assert_match(/\Athe signal -?CONT to another process\z/, result["write"]["what"], path)
      assert_match(/\Aconfig\.ru:\d+\z/, result["write"]["at"], path)
    end
  end

  def test_its_own_processes_and_questions
    codes = { "/there" => "Process.kill(0, OTHER)", "/itself" => "Process.kill(:CONT, Process.pid)", "/child" => "Process.spawn('sleep', '60').then { |pid| Process.kill(:KILL, pid).tap { Process.wait(pid) } }" }
    with_codes(codes) { |path, result| assert_equal ["1", nil], result.values_at("text", "write"), path }
  end
end
