# The pages of a server's control listener, as a program reads them. For servers that are started with `--control-url tcp://127.0.0.1:0`.
require "net/http"

module DashboardPages
  def port(server) = server.wait_for(/control listener is http:\/\/127\.0\.0\.1:(\d+)\//)[1].to_i

  def fetch(server, path, headers = {}) = Net::HTTP.get(URI("http://127.0.0.1:#{port(server)}#{path}"), headers).force_encoding("UTF-8")
end
