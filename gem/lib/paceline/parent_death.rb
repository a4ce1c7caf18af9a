# frozen_string_literal: true

# Lets the kernel kill this process when its parent dies, even while it is stuck where no Ruby runs. Where the kernel or
# the machine does not know how, the socket to the parent has to do.
require "rbconfig"

module Paceline
  module ParentDeath
    PR_SET_PDEATHSIG = 1
    PRCTL = { "x86_64" => 157, "aarch64" => 167 }.freeze
    private_constant :PR_SET_PDEATHSIG, :PRCTL

    # The parent may have died before: the caller has to look.
    def self.follow
      number = PRCTL[RbConfig::CONFIG["host_cpu"]]
      verbose, $VERBOSE = $VERBOSE, nil # syscall is deprecated, and warns
      syscall(number, PR_SET_PDEATHSIG, 9, 0, 0, 0) if number
    rescue SystemCallError, NotImplementedError
      nil
    ensure
      $VERBOSE = verbose
    end
  end
end
