require "sinatra/base"

class Hello < Sinatra::Base
  enable :sessions
  set :session_secret, ENV.fetch("SESSION_SECRET") { "only-for-trying-things-out-" * 3 }
  # Served under any name while it is tried out.
  set :host_authorization, { permitted_hosts: [] }

  get("/") { "Hello from Sinatra #{Sinatra::VERSION} on Ruby #{RUBY_VERSION}\n" }
  get("/hello/:name") { "Hello, #{params["name"]}\n" }

  get "/count" do
    session[:count] = session[:count].to_i + 1
    "#{session[:count]}\n"
  end

  get "/stream" do
    content_type :text
    stream do |out|
      5.times do |i|
        out << "#{i}\n"
        sleep 0.1
      end
    end
  end
end
