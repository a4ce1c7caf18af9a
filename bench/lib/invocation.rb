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

    # Adds --help as the last option of PARSER.
    def add_help(parser)
      parser.on_tail("-h", "--help", "This text") do
        puts parser
        exit
      end
    end

    # NAME: of the benchmark. Without the native part the Ruby side is several times slower, and nobody who installs the gem has it so.
    def need_paceline(name)
      has_native = system(RbConfig.ruby, "-I#{Servers::HERE}/gem/lib", "-e", 'require "paceline/native"; exit !!Paceline::Native')
      abort "bin/bench #{name}: the gem's native part is not built for Ruby #{RUBY_VERSION}: run `bin/native` with that Ruby, or set PACELINE_NATIVE=0 to measure without it" unless has_native || ENV["PACELINE_NATIVE"] == "0"
      abort "bin/bench #{name}: there is no #{Servers.paceline}: run `cargo build --release --locked`, or set PACELINE_BIN" unless File.executable?(Servers.paceline)
    end
  end
end
