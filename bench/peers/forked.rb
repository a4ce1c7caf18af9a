# frozen_string_literal: true

# Gives Thin and WEBrick, which have no workers of their own, several: loads the application once, listens once, and forks
# processes that accept from the same socket. So they need no proxy in front, whose cost would be counted as theirs.
#
#   ruby bench/peers/forked.rb thin|webrick PORT WORKERS      in the application's directory
require "socket"
require "rack"

# Thin on a socket that is open already.
def thin(app, listener)
  backend = Class.new(Thin::Backends::Base) do
    define_method(:initialize) { |*| super() }
    define_method(:connect) { @signature = EventMachine.attach_server(listener, Thin::Connection, &method(:initialize_connection)) }
    define_method(:disconnect) { EventMachine.stop_server(@signature) }
  end
  Thin::Logging.silent = true
  # One at a time, or whoever wakes first takes ten connections and the other process has nothing to do.
  EventMachine.set_simultaneous_accept_count(1)
  Thin::Server.new("127.0.0.1", 0, app, backend: backend, signals: false).start
end

# WEBrick on a socket that is open already.
def webrick(app, listener)
  server = WEBrick::HTTPServer.new(DoNotListen: true, ServerName: "127.0.0.1", Port: listener.addr[1], AccessLog: [],
                                   Logger: WEBrick::Log.new($stderr, WEBrick::Log::WARN))
  server.listeners << listener
  server.mount("/", Rack::Handler::WEBrick, app)
  server.start
end

name = ARGV[0]
port, workers = ARGV[1, 2].map { |word| Integer(word) }
# Wholly, before Bundler hides what the application's Gemfile doesn't name.
if name == "thin"
  require "thin"
  [Thin::Server, Thin::Connection, Thin::Request, Thin::Response, Thin::Headers, Thin::Backends::Base, Thin::Logging]
else
  require "rack/handler/webrick"
end
app, = Rack::Builder.parse_file("config.ru")
listener = TCPServer.new("127.0.0.1", port)
listener.listen(1024)

pids = Array.new(workers) do |i|
  fork do
    $0 = "forked worker #{i}: #{name}"
    trap("TERM") { exit!(0) }
    trap("INT", "IGNORE")
    name == "thin" ? thin(app, listener) : webrick(app, listener)
  end
end
listener.close
trap("TERM") { pids.each { |pid| Process.kill("TERM", pid) } }
trap("INT", "IGNORE")
Process.waitall
