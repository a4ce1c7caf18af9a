# frozen_string_literal: true

require_relative "support/shadow_case"
require "paceline/server/shadow/confinement"

# What the filter of system calls refuses, call by call, and that the numbers are those of the kernel.
class ShadowSystemCallsTest < ShadowCase
  CALLS = Paceline::Server::Shadow::Confinement::SystemCalls
  # The kernel's own words, where they are installed: numbers of x86_64, and those that all newer machines have.
  HEADERS = { "x86_64" => "/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "aarch64" => "/usr/include/asm-generic/unistd.h" }.freeze
  # With arguments that no call takes: without the filter each of these fails with another error than EPERM.
  HEAD = <<~RUBY.freeze
    require #{File.expand_path("../../../lib/paceline/server/shadow/confinement", __dir__).inspect}
    CALLS = Paceline::Server::Shadow::Confinement::SystemCalls
    NUMBERS = CALLS.module_eval("MACHINES").fetch(RbConfig::CONFIG["host_cpu"]).numbers
    CONDITIONS = CALLS.module_eval("CONDITIONS")
    $VERBOSE = nil
    def error(name, *arguments)
      syscall(NUMBERS.fetch(name), *arguments)
      nil
    rescue SystemCallError => e
      e.class.name
    end
    NONE = Array.new(6, -1).freeze
    # What meets the other conditions of a call that has several.
    OTHERS = Hash.new(NONE).merge(socket: [2, 2, 0], setpriority: [0, 0, 0], ioprio_set: [1, 0, 0]).freeze
    # A number that no process has.
    NOBODY = 0x7ffffff0
    def conditions
      CONDITIONS.flat_map do |name, place, kind, operand|
        values = kind == :beyond ? [NOBODY] : [*operand]
        values.map { |value| ["\#{name} \#{place} \#{value}", error(name, *OTHERS[name].dup.tap { |all| all[place] = value })] }
      end
    end
  RUBY

  def test_numbers_are_those_of_the_kernel
    headers = HEADERS.select { |_, path| File.exist?(path) }
    skip "no headers of the kernel" if headers.empty?
    headers.each do |name, path|
      known = File.read(path).scan(/^#define __NR(?:3264)?_(\w+)\s+(\d+)$/).to_h { |call, number| [call.to_sym, Integer(number)] }
      machine = CALLS.module_eval("MACHINES").fetch(name)
      numbers = machine.numbers.merge(prctl: machine.prctl, seccomp: machine.seccomp, setitimer: machine.setitimer)
      assert_equal known.slice(*numbers.keys), numbers.slice(*known.keys), name
      wanted = CALLS::REFUSED + CALLS.module_eval("SHORTENING + CONDITIONS.map(&:first) + OF_SHORTENING.map(&:first)")
      assert_empty((wanted & known.keys) - numbers.keys, name)
      assert_empty machine.numbers.keys - wanted, "#{name}: each call that has a number is refused"
    end
  end

  def test_each_call_is_refused
    skip "the numbers of this machine are not known" unless CALLS.known?
    refused = "CALLS::REFUSED.select { |name| NUMBERS.key?(name) }.to_h { |name| [name, error(name, *NONE)] }.reject { |_, error| error == 'Errno::EPERM' }.inspect"
    codes = { "/refused" => refused, "/conditions" => "conditions.reject { |_, error| error == 'Errno::EPERM' }.inspect",
              "/allowed" => "[1, 2, 10, 16].map { |family| error(:socket, family, family == 16 ? 3 : 1, 0) }.compact.inspect" }
    with_shadow("#{HEAD}#{routes(codes)}") do |shadow|
      assert_equal %w[{} [] []], (codes.keys.map { |path| shadow.get(path)["text"] })
    end
  end
end
