# frozen_string_literal: true

# What every benchmark's command does around its work: looks for the program that it measures, and ends with an interruption. Never measures anything.
require_relative "servers"

module Bench
  module Invocation
    module_function

    # Runs the block, which measures. An interruption ends what it has started.
    def of_command
      yield
    rescue Interrupt
      warn "\nInterrupted; every server is stopped."
      exit 130
    end

    # SIGTERM and SIGHUP end a benchmark as Ctrl-C does.
    def interrupt_by_signals
      %w[TERM HUP].each { |signal| trap(signal) { raise Interrupt } }
    end

    # NAME: of the benchmark.
    def need_paceline(name)
      abort "bin/bench #{name}: there is no #{Servers.paceline}: run `cargo build --release --locked`, or set PACELINE_BIN" unless File.executable?(Servers.paceline)
    end
  end
end
