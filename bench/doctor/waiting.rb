# frozen_string_literal: true

# For how long the threads of processes that have something to do were ready and had no processor: what the kernel says of each (schedstat). It reads only.
module Bench
  class DoctorWaiting
    # A thread that took less of the processor than this part of the time of all of them answers no requests: what it waits for delays nobody.
    BUSY = 0.1

    # What {thread => [nanoseconds on a processor, nanoseconds ready for one]} has more than BEFORE, milliseconds of the busy threads.
    def self.between(before, after)
      spent = after.to_h { |thread, figures| [thread, figures.zip(before.fetch(thread, [0, 0])).map { |now, was| now - was }] }
      all = spent.sum { |_, (ran, _)| ran }
      spent.sum { |_, (ran, waited)| ran >= all * BUSY ? waited : 0 } / 1e6
    end

    def self.begin(pids) = new(pids)

    def initialize(pids)
      @pids = pids
      @before = threads
    end
    private_class_method :new

    # Since then.
    def ms = self.class.between(@before, threads)

    private

    def threads
      @pids.flat_map { |pid| Dir["/proc/#{pid}/task/*/schedstat"] }.filter_map do |path|
        [path, File.read(path).split.first(2).map(&:to_i)]
      rescue SystemCallError
        nil
      end.to_h
    end
  end
end
