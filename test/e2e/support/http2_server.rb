# An HTTP/2 server on one stream, for upstreams whose every step is scripted. It asserts nothing itself.
require "http/2"

class Http2Server
  def initialize(io)
    @io = io
    @begun, @asked = [], []
    @connection = HTTP2::Server.new
    @connection.on(:frame) { |bytes| @io.write(bytes) }
    @connection.on(:stream) do |stream|
      fields, body = {}, +"".b
      stream.on(:headers) do |pairs|
        pairs.each { |name, value| fields[name] = value }
        @begun << [stream, fields, body]
      end
      stream.on(:data) { |piece| body << piece }
      stream.on(:half_close) { @asked << [stream, fields, body] }
    end
  end

  # The next request, when it is complete: its stream, its fields, its body. nil: the other side has closed.
  def request
    read until @asked.any? || @ended
    @asked.shift
  end

  # The same as soon as its fields are there; its body grows as it comes.
  def head
    read until @begun.any? || @ended
    @begun.shift
  end

  # Reads until the block says that it is enough.
  def read_until = (read until @ended || yield)

  def answer(stream, body, status: "200", **fields)
    stream.headers({ ":status" => status, **fields.transform_keys(&:to_s) }, end_stream: body.empty?)
    stream.data(body) unless body.empty?
  end

  # RST_STREAM with REFUSED_STREAM: it was not looked at.
  def refuse(stream) = stream.refuse

  # GOAWAY that reaches the stream `last`, and no further.
  def go_away(last)
    @connection.__send__(:send, { type: :goaway, last_stream: last, error: :no_error, payload: "" })
  end

  # Goes on until the other side closes.
  def rest = (read until @ended)

  private

  def read
    @connection << @io.readpartial(16_384)
  rescue EOFError, SystemCallError, OpenSSL::SSL::SSLError
    @ended = true
  end
end
