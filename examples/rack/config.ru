# A path for each thing a Rack application may do. Runs on Rack 2 and on Rack 3; GET / lists what there is.
require_relative "bodies"
require_relative "kinds"

run Kinds.new
