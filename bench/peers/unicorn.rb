# frozen_string_literal: true

# Unicorn's settings: as many workers as the others have, forked from a loaded application. No address: that is a flag.
worker_processes Integer(ENV.fetch("BENCH_WORKERS"))
preload_app true
timeout 120
logger Logger.new(File::NULL)
