# frozen_string_literal: true

# What the processes that are started below this one leave behind. It adopts their orphans, so a daemon is found as well. Looks at nobody else's.
require_relative "../../lib/processes"

class Leftovers
  # Seconds in which what was told to end has to be gone.
  PATIENCE = 5

  def initialize
    @processes = Bench::Processes.new.tap(&:adopt_orphans)
  end

  # The titles of those that are still there, by pid. They are killed.
  def clear(patience = PATIENCE)
    limit = now + patience
    sleep 0.02 while (pids = @processes.tree.keys).any? && now < limit
    left = pids.to_h { |pid| [pid, @processes.title(pid)] }
    Bench::Processes.signal("KILL", pids)
    left
  end

  private

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
end
