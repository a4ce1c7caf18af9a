# frozen_string_literal: true

# What a block costs. Times in microseconds: `wall` (monotonic), `cpu` of this thread, `gc` of the process; `allocated`: objects. `wall` is without the time
# in which this thread was ready and had no processor: a shadow has the lowest priority, and on a busy machine it would wait for far longer than a worker.
module Paceline
  module Server
    module Shadow
      # Of the thread that reads it.
      SCHEDULED = "/proc/thread-self/schedstat"
      private_constant :SCHEDULED

      Cost = Struct.new(:wall, :cpu, :gc, :allocated) do
        # The cost of the block, whatever it returns.
        def self.of
          waited = waiting
          started = figures
          yield
          ended = figures
          wall, cpu, *others = ended.zip(started).map { |after, before| after - before }
          # It may have waited just before and after, too.
          new([wall - (waiting - waited), cpu].max, cpu, *others)
        end

        def self.figures
          gc = GC.respond_to?(:total_time) ? GC.total_time / 1000 : (GC.stat(:time) || 0) * 1000
          [::Process.clock_gettime(::Process::CLOCK_MONOTONIC, :float_microsecond),
           ::Process.clock_gettime(::Process::CLOCK_THREAD_CPUTIME_ID, :float_microsecond), gc, GC.stat(:total_allocated_objects)]
        end
        private_class_method :figures

        # For a processor, since the thread began: the second figure of schedstat, in nanoseconds. 0 where the kernel does not say.
        def self.waiting
          File.read(SCHEDULED).split[1].to_i / 1000.0
        rescue SystemCallError
          0.0
        end
      end
    end
  end
end
