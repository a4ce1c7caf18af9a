# frozen_string_literal: true

module Paceline
  # For Thread.handle_interrupt. A thread may be ended, or have something raised (Timeout), whenever a method that is written in C returns, also
  # within `ensure`: what belongs together is done with this.
  UNINTERRUPTED = { Object => :never }.freeze
end
