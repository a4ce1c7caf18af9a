# frozen_string_literal: true

# What a block costs. Times in microseconds: `wall` (monotonic), `cpu` of this thread, `gc` of the process; `allocated`: objects.
module Paceline
  module Server
    module Shadow
      Cost = Struct.new(:wall, :cpu, :gc, :allocated) do
        # The cost of the block, whatever it returns.
        def self.of
          started = figures
          yield
          new(*figures.zip(started).map { |after, before| after - before })
        end

        def self.figures
          gc = GC.respond_to?(:total_time) ? GC.total_time / 1000 : (GC.stat(:time) || 0) * 1000
          [::Process.clock_gettime(::Process::CLOCK_MONOTONIC, :float_microsecond),
           ::Process.clock_gettime(::Process::CLOCK_THREAD_CPUTIME_ID, :float_microsecond), gc, GC.stat(:total_allocated_objects)]
        end
        private_class_method :figures
      end
    end
  end
end
