# frozen_string_literal: true

module XMLPrograms
  # Makes a program smaller as long as it still fails: parts are left out of every list in it, Strings are halved, blocks go.
  class Shrinker
    # `fails` is asked of a program.
    def initialize(&fails)
      @fails = fails
    end

    def shrink(program)
      budget = 3000
      loop do
        smaller = candidates(program).find do |candidate|
          return program if (budget -= 1).negative?

          fails?(candidate)
        end
        return program unless smaller

        program = smaller
      end
    end

    private

    # A candidate may be no program at all: then it does not count.
    def fails?(candidate)
      @fails.call(candidate)
    rescue StandardError
      false
    end

    def candidates(node)
      Enumerator.new { |list| each_smaller(node) { |smaller| list << smaller } }
    end

    def each_smaller(node, &found)
      case node
      when Hash
        node.each_key { |key| found.call(node.except(key)) unless %i[builders ops].include?(key) }
        node.each { |key, value| each_smaller(value) { |smaller| found.call(node.merge(key => smaller)) } }
      when Array
        node.each_index { |index| found.call(node[0...index] + node[index + 1..]) }
        node.each_with_index do |value, index|
          found.call(node.dup.tap { |copy| copy[index] = nil }) if value.is_a?(Array)
          found.call(node.dup.tap { |copy| copy[index] = :markup }) if value.is_a?(Symbol) && value.match?(/\A(sub|prepended|included|both)_/)
          each_smaller(value) { |smaller| found.call(node.dup.tap { |copy| copy[index] = smaller }) }
        end
      when String
        bytes = node.b
        [bytes[0, bytes.size / 2], bytes[bytes.size / 2..], bytes[1..], bytes[0..-2]].each { |half| found.call(half) if half && half.size < bytes.size } unless bytes.match?(/\A[A-Z]+-?\d/)
      end
    end
  end
end
