# For `bin/bench serve --servers paceline,paceline-front`.
Rails.application.config.paceline.front = true if ENV.key?("BENCH_FRONT")
