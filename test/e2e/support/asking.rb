# How scenarios ask the running server: by command, and over its control socket.
# It asserts nothing itself.
require "json"
require "open3"

module Asking
  # What a program sees in place of the terminal's and the test's own settings.
  OWN = { "PACELINE_CONTROL" => nil, "RACK_ENV" => nil, "PORT" => nil }.freeze

  # Runs `paceline ARGUMENTS` in the server's directory: [what it printed, exit status].
  def command(server, *arguments, env: {})
    out, status = Open3.capture2e(OWN.merge(Scenario::AS_ROOT).merge(env), Scenario::BIN, *arguments, chdir: server.dir)
    [out, status.exitstatus]
  end

  # What the command printed, which is JSON.
  def command_json(server, *arguments)
    out, status = command(server, *arguments)
    raise Minitest::Assertion, "#{arguments.join(" ")} ended with #{status}:\n#{out}" unless status.zero?
    JSON.parse(out)
  end

  # GET on the control socket: [status, body, headers by lower-case name].
  def control(server, target, method: "GET")
    answer = Timeout.timeout(Scenario::PATIENCE) do
      UNIXSocket.open(File.join(server.dir, "tmp/paceline.sock")) do |io|
        io.write("#{method} #{target} HTTP/1.1\r\nHost: paceline\r\nConnection: close\r\n\r\n")
        io.read.force_encoding("UTF-8")
      end
    end
    head, body = answer.split("\r\n\r\n", 2)
    fields = head.lines(chomp: true).drop(1).to_h { |line| line.split(": ", 2).then { |name, value| [name.downcase, value] } }
    [Integer(head[/\AHTTP\/1.1 (\d+)/, 1]), body, fields]
  end

  def control_json(server, target) = JSON.parse(control(server, target)[1])
end
