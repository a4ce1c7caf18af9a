# The page /provision asks its suppliers 15 times, each time over a new connection. With this line the calls ride connections that are warm already
# (or, for once: `WARM=1 bin/demo`).
(require "paceline/http"; Paceline::HTTP.install!) if ENV["WARM"]
