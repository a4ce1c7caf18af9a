# frozen_string_literal: true

require "io/wait"
require "minitest"

# Ends a run in which a test hangs, and says which one it is and where it hangs. A process of its own looks on, since a test may hang where no
# thread of Ruby's gets to run; and the tests' process has no thread more than without it.
module HangWatch
  # How long a test may take (s). The gem's longest takes 10 s when nothing else runs.
  LIMIT = Float(ENV.fetch("TEST_LIMIT", "180"))
  # Sent to the tests' process so that it tells what its threads are at.
  TELL = "PWR"

  # Before Minitest::Test.
  module Told
    def run
      HangWatch.tell("#{self.class}##{name}")
      super
    ensure
      HangWatch.tell("")
    end
  end

  class << self
    def start
      return if @to

      @pid = Process.pid
      from, @to = IO.pipe
      trap(TELL) { tell_threads }
      # Twice, so that it is nobody's child whom a test waits for.
      Process.wait(fork do
        fork { watch(from) }
        exit!(0)
      end)
      from.close
      Minitest::Test.prepend(Told)
    end

    def tell(test)
      @to.write("#{test}\n") if Process.pid == @pid
    end

    private

    def tell_threads
      Thread.list.each { |thread| warn "#{thread.inspect}\n    #{(thread.backtrace || []).join("\n    ")}" }
    end

    def watch(from)
      %w[INT QUIT HUP TERM].each { |name| trap(name, "IGNORE") }
      @to.close
      test = ""
      since = now
      while alive?
        if from.wait_readable(0.5)
          test = from.readpartial(65_536).split("\n", -1)[-2].to_s
          since = now
        elsif now - since > LIMIT
          stop(test.empty? ? "What comes between tests, or after the last," : test)
        end
      end
    rescue EOFError
      nil
    ensure
      exit!(0)
    end

    def stop(test)
      warn "\n#{test} has hung for #{LIMIT.to_i} s. Its threads:"
      signal(TELL, 5)
      Dir["/proc/#{@pid}/task/*"].each { |task| warn "#{task}: #{%w[comm wchan stack].map { |name| read("#{task}/#{name}") }.join(" ")}" }
      warn "The processes:", `ps -eo pid,ppid,stat,wchan:24,args --forest`
      # Ruby's report of a crash has the C frames, too.
      signal("SEGV", 20)
      signal("KILL", 0)
    end

    def signal(name, wait)
      Process.kill(name, @pid)
      sleep(wait)
    rescue Errno::ESRCH
      nil
    end

    def read(path)
      File.read(path).strip
    rescue SystemCallError
      "-"
    end

    def alive?
      Process.kill(0, @pid)
    rescue Errno::ESRCH
      false
    end

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end

HangWatch.start
