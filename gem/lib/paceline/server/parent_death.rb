# frozen_string_literal: true

# Lets the kernel kill this process when its parent dies, even while it is stuck where no Ruby runs. Where the kernel or
# the machine does not know how, the socket to the parent has to do.
require "rbconfig"

module Paceline
  module Server
    module ParentDeath
      PR_SET_PDEATHSIG = 1
      PRCTL = { "x86_64" => 157, "aarch64" => 167 }.freeze
      private_constant :PR_SET_PDEATHSIG, :PRCTL

      # The parent may have died before: the caller has to look.
      def self.follow(signal = 9)
        number = PRCTL[RbConfig::CONFIG["host_cpu"]]
        verbose, $VERBOSE = $VERBOSE, nil # syscall is deprecated, and warns
        syscall(number, PR_SET_PDEATHSIG, signal, 0, 0, 0) if number
      rescue SystemCallError, NotImplementedError
        nil
      ensure
        $VERBOSE = verbose
      end

      # Outlives the parent, and dies with the front (a pid), whose child this process is from then on.
      def self.follow_next(front)
        trap("USR2") { follow if Process.ppid == front }
        follow(Signal.list.fetch("USR2"))
        follow if Process.ppid == front # its death came first
      end
    end
  end
end
