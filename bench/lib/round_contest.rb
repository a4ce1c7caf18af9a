# frozen_string_literal: true

# Ways that are measured against each other, round by round. Prints nothing.
module Bench
  class RoundContest
    # OPTIONS: those of the benchmark, `rounds` among them. The block is told of each step and whether it is over.
    def initialize(options, processes, &told)
      @options = options
      @processes = processes
      @told = told
    end

    private

    # {name => what the block returned of it in each round}: each of NAMES begins in turn. TITLE stands before the round.
    def in_turn(names, title = "")
      rows = names.to_h { |name| [name, []] }
      @options[:rounds].times do |round|
        names.rotate(round).each do |name|
          what = "#{title}round #{round + 1}: #{name}"
          @told.call(what, false)
          rows[name] << yield(name)
          @told.call("#{what}: #{rows[name].last}", true)
        end
      end
      rows
    end
  end
end
