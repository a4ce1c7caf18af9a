require "json"

warn "The cellar is being opened"
require "hop_inventory"

class Cellar
  def call(_env)
    [200, { "content-type" => "text/plain" }, ["open\n"]]
  end
end
