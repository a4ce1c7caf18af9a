# Sinatra's classic style, with no config.ru beside it: `ruby app.rb` would serve it by itself.
require "sinatra"

set :host_authorization, { permitted_hosts: [] }

get("/") { "Hello from classic Sinatra #{Sinatra::VERSION}\n" }
get("/hello/:name") { "Hello, #{params["name"]}\n" }
