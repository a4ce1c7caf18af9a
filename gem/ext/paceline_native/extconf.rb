# frozen_string_literal: true

# The native part of the shim. Optional: without it the same is done in Ruby, more slowly (lib/paceline/native.rb).
require "mkmf"

$CFLAGS << " -O3 -fvisibility=hidden -Wall -Wextra -Wno-unused-parameter"
create_makefile("paceline/paceline_native")
