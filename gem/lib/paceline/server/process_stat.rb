# frozen_string_literal: true

module Paceline
  module Server
    # A process as /proc/PID/stat has it: its name, its state (a letter) and the pid of its parent. Reads only.
    ProcessStat = Struct.new(:name, :state, :parent) do
      # Nil: it has ended.
      def self.of(pid)
        line = File.read("/proc/#{pid}/stat")
        # The name is in parentheses, and may hold spaces and parentheses itself.
        first, last = line.index("("), line.rindex(")")
        state, parent = line[(last + 2)..].split
        new(line[(first + 1)...last], state, parent.to_i)
      rescue SystemCallError
        nil
      end
    end
  end
end
