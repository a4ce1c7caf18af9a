# frozen_string_literal: true

# The gem's version. Loads nothing.
module Paceline
  VERSION = "0.1.0" unless defined?(VERSION)
end
