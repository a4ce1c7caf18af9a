require "net/http"
require "paceline/http"
Paceline::HTTP.install!
