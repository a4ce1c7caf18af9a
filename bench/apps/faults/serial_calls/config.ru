# A page of what five services say, each on a connection that is kept.
$LOAD_PATH.unshift(File.join(ENV.fetch("PACELINE_GEM_DIR"), "lib"))
require "json"
require "sinatra/base"
require "paceline/http"
require_relative "services"

class Overview < Sinatra::Base
  set :environment, :production
  before { headers "Cache-Control" => "private, no-store" }
  get("/") { "overview" }

  get "/overview" do
    content_type :json
    JSON.generate(Services.answers(Array.new(5) { |i| "#{ENV.fetch("FAULT_UPSTREAM")}/slow/#{i}" }))
  end
end

run Overview
