# Responses as they are on the wire: status line, fields in their order and spelling, the pieces of a body.
# It reads strictly what RFC 9112 says and raises on anything else, so that no test can pass on a broken response.
module Wire
  class Broken < StandardError; end

  Response = Struct.new(:line, :fields, :body, :chunks) do
    def status = Integer(line[/\AHTTP\/1\.[01] (\d{3}) /, 1])
    def [](name) = all(name).first
    def all(name) = fields.select { |field, _| field.casecmp?(name) }.map(&:last)
    def names = fields.map(&:first)
  end

  module_function

  # A request without a body, for Host "test" unless `fields` ("Name: value") name another.
  def request(path, *fields, method: "GET", version: "1.1")
    fields = ["Host: test", *fields] if fields.none? { |field| field.match?(/\Ahost:/i) }
    ["#{method} #{path} HTTP/#{version}", *fields, "", ""].join("\r\n")
  end

  # The next response on the socket. `to`: the request's method.
  def response(io, to: "GET")
    head(io).tap { |head| head.body = body(io, head, to: to) }
  end

  # The body that comes after `head`.
  def body(io, head, to: "GET")
    return "" if to == "HEAD" || head.status < 200 || [204, 304].include?(head.status)
    if head["transfer-encoding"]
      head.chunks = []
      while (chunk = chunk(io))
        head.chunks << chunk
      end
      head.chunks.join
    elsif (length = head["content-length"])
      exactly(io, Integer(length, 10))
    else
      io.read
    end
  end

  # Line and fields alone.
  def head(io)
    line = line(io)
    raise Broken, "status line #{line.inspect}" unless line.match?(/\AHTTP\/1\.[01] \d{3} /)
    fields = []
    until (field = line(io)).empty?
      name, value = field.split(": ", 2)
      raise Broken, "field #{field.inspect}" unless name.match?(/\A[!#$%&'*+.^_`|~0-9A-Za-z-]+\z/) && value
      fields << [name, value]
    end
    Response.new(line, fields, "", nil)
  end

  # One chunk of a chunked body; nil at its end.
  def chunk(io)
    size = line(io)
    raise Broken, "chunk size #{size.inspect}" unless size.match?(/\A\h+\z/)
    data = exactly(io, size.hex)
    raise Broken, "chunk of #{size} is not followed by a line end" unless line(io).empty?
    size.hex.zero? ? nil : data
  end

  def line(io)
    line = io.gets("\r\n")
    raise EOFError, "the server closed" if line.nil?
    raise Broken, "line #{line.inspect}" unless line.end_with?("\r\n")
    line.delete_suffix("\r\n")
  end

  def exactly(io, length)
    return "".b if length.zero?
    data = io.read(length)
    raise EOFError, "#{data.to_s.bytesize} of #{length} bytes, then the server closed" if data.to_s.bytesize < length
    data
  end
end
