require "digest"
require "json"
require "rack"

class Kinds
  TEXT = { "content-type" => "text/plain; charset=utf-8" }.freeze
  BIG = ("0123456789abcdef" * 65_536).freeze
  FINISHED = Queue.new

  def call(env)
    path = env["PATH_INFO"]
    name = path == "/" ? "index" : path.delete_prefix("/").tr("-/", "__")
    return [404, TEXT.dup, ["no such kind\n"]] unless KINDS.include?(name)

    send(name, env)
  end

  private

  def text(body, status: 200, **headers)
    [status, TEXT.merge(headers.transform_keys { |key| key.to_s.tr("_", "-") }), body]
  end

  def query(env, name, default)
    env["QUERY_STRING"][/(?:\A|&)#{name}=(\d+)/, 1]&.to_i || default
  end

  def rack3?
    Rack.release.to_i >= 3
  end

  def index(_env)
    text(KINDS.map { |name| "/#{name.tr("_", "-")}\n" })
  end

  def array(_env)
    text(["one ", "two ", "three\n"])
  end

  def enumerable(_env)
    text(Bodies::Parts.new(["one ", "two ", "three\n"]))
  end

  def callable(_env)
    text(Bodies::Streaming.new { |stream| ["one ", "two ", "three\n"].each { |part| stream.write(part) } })
  end

  def file(_env)
    text(Bodies::SentFile.new(__FILE__), content_type: "application/x-ruby")
  end

  # The kind of page a template engine makes: 1,300 strings of a few bytes each.
  def strings(_env)
    text(Array.new(1300) { |i| "<li>#{i}</li>\n" })
  end

  def big(_env)
    text(Bodies::Parts.new([BIG] * 10), content_length: (BIG.bytesize * 10).to_s)
  end

  def empty(_env)
    [204, {}, []]
  end

  def no_length(_env)
    text(Bodies::Parts.new(["no ", "length ", "here\n"]))
  end

  # ?n= parts, ?ms= apart.
  def trickle(env)
    text(Bodies::Parts.new(Array.new(query(env, "n", 5)) { |i| "#{i}\n" }, pause: query(env, "ms", 200) / 1000.0))
  end

  def sse(env)
    events = Array.new(query(env, "n", 5)) { |i| "id: #{i}\ndata: #{i}\n\n" }
    text(Bodies::Parts.new(events, pause: query(env, "ms", 200) / 1000.0), content_type: "text/event-stream", cache_control: "no-cache")
  end

  def slow(env)
    sleep query(env, "ms", 500) / 1000.0
    text(["done\n"])
  end

  def busy(env)
    until_then = Process.clock_gettime(Process::CLOCK_MONOTONIC) + query(env, "ms", 500) / 1000.0
    nil while Process.clock_gettime(Process::CLOCK_MONOTONIC) < until_then
    text(["done\n"])
  end

  def upload(env)
    digest = Digest::SHA256.new
    bytes = 0
    while (part = env["rack.input"].read(64 * 1024))
      digest << part
      bytes += part.bytesize
    end
    text(["#{bytes} #{digest.hexdigest}\n"])
  end

  def echo(env)
    [200, { "content-type" => env["CONTENT_TYPE"] || "application/octet-stream" }, [env["rack.input"]&.read.to_s]]
  end

  def hints(env)
    env["rack.early_hints"]&.call({ "link" => "</style.css>; rel=preload; as=style" })
    text(["hinted\n"])
  end

  # Takes the connection over and sends every line back, until a line says bye.
  def hijack(env)
    io = env["rack.hijack"].call || env["rack.hijack_io"]
    Thread.new do
      io.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
      echo_lines(io)
    end
    [-1, {}, []]
  end

  def partial_hijack(_env)
    [200, TEXT.merge("rack.hijack" => ->(io) { Thread.new { echo_lines(io) } }), []]
  end

  def echo_lines(io)
    while (line = io.gets)
      io.write(line)
      io.flush
      break if line.start_with?("bye")
    end
  rescue SystemCallError, IOError
    nil
  ensure
    io.close
  end

  def cookies(_env)
    pair = ["one=1; path=/", "two=2; path=/"]
    text(["two cookies\n"], set_cookie: rack3? ? pair : pair.join("\n"))
  end

  def env(env)
    plain = env.select { |_, value| value.is_a?(String) || value.is_a?(Integer) || value == true || value == false || value.nil? }
    text([JSON.pretty_generate(plain.merge("rack.release" => Rack.release, "ruby" => RUBY_VERSION)), "\n"], content_type: "application/json")
  end

  def pid(_env)
    text(["#{Process.pid}\n"])
  end

  # What ran after a response was sent is told by /finished-log.
  def finished(env)
    env["rack.response_finished"]&.push(->(_env, status, _headers, error) { FINISHED << "rack.response_finished #{status} #{error.inspect}" })
    env["rack.after_reply"]&.push(-> { FINISHED << "rack.after_reply" })
    text(["there is something to do yet\n"])
  end

  def finished_log(_env)
    text(Array.new(FINISHED.size) { "#{FINISHED.pop}\n" })
  end

  def closed(_env)
    text(["#{Bodies::Parts.closed}\n"])
  end

  def errors(env)
    env["rack.errors"].puts("said to rack.errors")
    warn "said to stderr"
    puts "said to stdout"
    text(["said\n"])
  end

  def raises(_env)
    raise ArgumentError, "this application raises"
  end

  def raises_midway(_env)
    text(Bodies::Parts.new(["one\n", "two\n", "three\n"], fail_after: 2))
  end

  def bad_header(_env)
    text(["no\n"], x_bad: "one\r\nset-cookie: stolen=1")
  end

  def dies(_env)
    Process.kill(:KILL, Process.pid)
    sleep
  end

  KINDS = (private_instance_methods(false) - %i[text query rack3? echo_lines initialize]).map(&:to_s).sort.freeze
end
