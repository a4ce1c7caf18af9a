# frozen_string_literal: true

# What a block costs. Times in microseconds: `wall` (monotonic), `cpu` of this thread, `gc` of the process; `allocated`: objects. `wall` is without the time
# in which this thread was ready and had no processor: a shadow has the lowest priority, and on a busy machine it would wait for far longer than a worker.
# What a trial does for itself (Cost.aside) is left out, too.
module Paceline
  module Server
    module Shadow
      # Of the thread that reads it.
      SCHEDULED = "/proc/thread-self/schedstat"
      # Microseconds: own work that takes longer was interrupted.
      LONGEST_ASIDE = 100.0
      private_constant :SCHEDULED, :LONGEST_ASIDE

      Cost = Struct.new(:wall, :cpu, :gc, :allocated) do
        # The cost of the block, whatever it returns.
        def self.of
          waited = waiting
          @aside_us, @aside_objects = 0.0, 0
          started = figures
          yield
          ended = figures
          wall, cpu, gc, allocated = ended.zip(started).map { |after, before| after - before }
          # It may have waited just before and after, too.
          wall = [wall - (waiting - waited), cpu].max
          new(wall - @aside_us, cpu - @aside_us, gc, allocated - @aside_objects)
        end

        # Does the own work of a trial, such as looking for what it has kept: hundreds of times in a request, and no visitor's request does it.
        def self.aside
          began, objects = computing, GC.stat(:total_allocated_objects)
          yield
        ensure
          @aside_us += [computing - began, LONGEST_ASIDE].min
          @aside_objects += GC.stat(:total_allocated_objects) - objects
        end
        @aside_us, @aside_objects = 0.0, 0

        # Collections come whenever memory is short, and are counted apart.
        def self.computing
          ::Process.clock_gettime(::Process::CLOCK_MONOTONIC, :float_microsecond) - (GC.respond_to?(:total_time) ? GC.total_time / 1000.0 : 0)
        end
        private_class_method :computing

        def self.figures
          gc = GC.respond_to?(:total_time) ? GC.total_time / 1000 : (GC.stat(:time) || 0) * 1000
          [::Process.clock_gettime(::Process::CLOCK_MONOTONIC, :float_microsecond),
           ::Process.clock_gettime(::Process::CLOCK_THREAD_CPUTIME_ID, :float_microsecond), gc, GC.stat(:total_allocated_objects)]
        end
        private_class_method :figures

        # For a processor, since the thread began. 0 where the kernel does not say.
        def self.waiting
          waited(File.read(SCHEDULED))
        rescue SystemCallError
          0.0
        end

        # By the second figure of SCHEDULED, which is in nanoseconds.
        def self.waited(text)
          text.byteslice(text.index(" ").to_i, text.bytesize).to_i / 1000.0
        end
      end
    end
  end
end
