# The server as its owner sees it from outside: the control socket, and the commands that ask there.
require "json"
require "open3"
require "socket"
require_relative "scenario"

module Control
  # The JSON that the control socket answers with. `body`: a Hash, or nil for GET.
  def control(server, path, body = nil)
    text = body ? JSON.generate(body) : ""
    UNIXSocket.open(File.join(server.dir, "tmp/paceline.sock")) do |io|
      io.write("#{body ? "POST" : "GET"} #{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: #{text.bytesize}\r\n\r\n#{text}")
      JSON.parse(Timeout.timeout(Scenario::PATIENCE) { io.read }.split("\r\n\r\n", 2).last)
    end
  end

  # Runs `paceline ARGUMENTS` in the server's directory: what it printed, and its exit status.
  def command(dir, *arguments, env: {})
    clean = { "PACELINE_CONTROL" => nil, "RACK_ENV" => nil, "RAILS_ENV" => nil, "PORT" => nil }
    out, status = Open3.capture2e(clean.merge(Scenario::AS_ROOT, env), Scenario::BIN, *arguments, chdir: dir)
    [out, status.exitstatus]
  end

  # What GET /generations tells of the server's only site.
  def generations(server) = control(server, "/generations")["sites"].values.first
end
