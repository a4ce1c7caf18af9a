# A page that waits for a service.
$LOAD_PATH.unshift(File.join(ENV.fetch("PACELINE_GEM_DIR"), "lib"))
require "paceline/http"

run(lambda do |env|
  headers = { "content-type" => "text/plain", "cache-control" => "private, no-store" }
  [200, headers, [env["PATH_INFO"] == "/quote" ? Paceline::HTTP.get("#{ENV.fetch("FAULT_UPSTREAM")}/slow/1").body : "quotes\n"]]
end)
