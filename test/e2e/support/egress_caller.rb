# A process that asks the front for outbound calls as docs/egress-protocol.md says, byte by byte. It asserts nothing itself.
require "socket"
require_relative "wire"

class EgressCaller
  # `to`: the socket's path.
  def initialize(to)
    @io = UNIXSocket.new(to)
  end

  # Sends a request for this URL. `wanted`: the field Paceline-Egress.
  def ask(url, wanted = nil, method: "GET", fields: {}, body: nil)
    fields = { "Host" => url[%r{//([^/]*)}, 1] }.merge(fields)
    fields["Paceline-Egress"] = wanted if wanted
    fields["Content-Length"] = body.bytesize if body
    write("#{method} #{url} HTTP/1.1\r\n", *fields.map { |name, value| "#{name}: #{value}\r\n" }, "\r\n", body.to_s)
  end

  def write(*bytes) = @io.write(bytes.join)
  def response(to: "GET") = Wire.response(@io, to: to)
  def head = Wire.head(@io)
  def chunk = Wire.chunk(@io)
  def io = @io

  # Asks and answers.
  def call(url, wanted = nil, method: "GET", **more)
    ask(url, wanted, method: method, **more)
    response(to: method)
  end

  def close = @io.close
end
