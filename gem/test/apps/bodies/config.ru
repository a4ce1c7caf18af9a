# frozen_string_literal: true

# One path for each rule of the adapter. GET /events answers, and forgets, what happened since the last time.
require "rack"
require "uri" # Lint asks for it without requiring it

EVENTS = []

# A body that tells of its own life.
class TellingBody
  def initialize(*parts, fail_after: nil)
    @parts = parts
    @fail_after = fail_after
  end

  def each
    EVENTS << "each"
    @parts.each_with_index do |part, at|
      raise "broken in the middle" if at == @fail_after
      yield part
    end
  end

  def close
    EVENTS << "close"
  end
end

# Yields "a"; the rest only once the test has seen that and made the file.
class WaitingBody < TellingBody
  def initialize(path, fail_after: nil)
    super("a", "b", fail_after: fail_after)
    @path = path
  end

  def each
    super do |part|
      yield part
      sleep 0.001 until File.exist?(@path)
    end
  end
end

class KnownBody < TellingBody
  def to_ary
    EVENTS << "to_ary"
    close if Rack.release.to_i >= 3 # as Rack 3's SPEC says
    @parts
  end
end

class FileBody < TellingBody
  def initialize(path, *parts)
    super(*parts)
    @path = path
  end

  def to_path = @path
end

class EndlessBody < TellingBody
  def each
    loop { yield "tick" }
  rescue IOError => e
    EVENTS << "raised #{e.class}"
    raise
  end
end

TEXT = { "content-type" => "text/plain" }.freeze

def ok(body, headers = {}) = [200, TEXT.merge(headers), body]

def hints(env)
  env["rack.early_hints"].call("link" => "</a.css>; rel=preload")
  ok(["hinted"])
end

def callbacks(env, fail: false)
  env["rack.after_reply"] << -> { EVENTS << "after_reply" } << -> { raise "in after_reply" }
  %w[first second].each do |name|
    (env["rack.response_finished"] || []) << lambda do |at, status, headers, error|
      EVENTS << "#{name} #{at.equal?(env) || at["PATH_INFO"]} #{status.inspect} #{headers.class} #{error.class}"
    end
  end
  raise "no answer" if fail
  ok(["called"])
end

def hijack_full(env)
  io = env["rack.hijack"].call
  Thread.new do
    io.write("hello ")
    IO.select([io])
    io.write(io.read_nonblock(100).upcase)
    io.close
  end
  [200, TEXT, []]
end

def read_cut(env)
  ok([env["rack.input"].read])
rescue IOError => e
  ok([e.class.name])
end

def spans(_env)
  2.times { Paceline.span("render") { EVENTS.size } }
  ok(["x"])
end

def changes(_env)
  Paceline.changes_at(nil)
  Paceline.changes_at(Time.at(1_795_780_800.25))
  Paceline.changes_at(1_795_780_900)
  ok(["x"])
end

ROUTES = {
  "/changes" => method(:changes),
  "/array" => ->(_) { ok(%w[one two]) },
  "/many" => ->(_) { ok(Array.new(1300) { |n| "<#{n}>" }) },
  "/empty" => ->(_) { ok([]) },
  "/mixed" => ->(_) { ok(["\u00fc", "\xff".b, "\u20ac"]) },
  "/known" => ->(_) { ok(KnownBody.new("a", "b")) },
  "/each" => ->(_) { ok(TellingBody.new("a", "", "b")) },
  "/each-length" => ->(_) { ok(TellingBody.new("a", "b"), "content-length" => "2") },
  "/each-big" => ->(_) { ok(TellingBody.new("x" * 200_000)) },
  "/each-fails" => ->(_) { ok(TellingBody.new("a", "b", fail_after: 1)) },
  "/each-waits" => ->(env) { ok(WaitingBody.new(env["QUERY_STRING"])) },
  "/each-waits-and-fails" => ->(env) { ok(WaitingBody.new(env["QUERY_STRING"], fail_after: 1)) },
  "/chunked-by-app" => ->(_) { ok(TellingBody.new("3\r\nabc\r\n", "0\r\n", "\r\n"), "transfer-encoding" => "chunked") },
  "/chunked-array" => ->(_) { ok(["3\r\nabc\r\n", "0\r\n\r\n"], "transfer-encoding" => "chunked") },
  "/each-not-strings" => ->(_) { ok(TellingBody.new(:a, 1)) },
  "/events-stream" => ->(_) { ok(TellingBody.new("a", "b"), "content-type" => "text/event-stream") },
  "/unbuffered" => ->(_) { ok(TellingBody.new("a", "b"), "x-accel-buffering" => "no") },
  "/file" => ->(env) { ok(FileBody.new(env["QUERY_STRING"], "from each")) },
  "/large" => ->(_) { ok(["y" * 1_200_000]) },
  "/204" => ->(_) { [204, {}, TellingBody.new] },
  "/304" => ->(_) { [304, {}, TellingBody.new("no")] },
  "/endless" => ->(_) { ok(EndlessBody.new) },
  "/callable" => lambda { |env|
    ok(lambda { |stream|
      stream.write("got: ")
      stream << (stream.read || "") << ""
      stream.flush
      stream.close
      EVENTS << "closed #{stream.closed?} #{env["REQUEST_METHOD"]}"
    })
  },
  "/headers" => lambda { |_|
    ok([], "x-array" => Rack.release.to_i >= 3 ? %w[a b] : "a\nb", "x-umlaut" => "\u00fc")
  },
  "/header-name" => ->(_) { ok(TellingBody.new("a"), "x y" => "1") },
  "/header-value" => ->(_) { ok(["a"], "x-a" => "1\r\nx-b: 2") },
  "/header-rack" => ->(_) { ok(["a"], "rack.private" => "1") },
  "/status" => ->(env) { [env["QUERY_STRING"].include?("text") ? "201" : 42, TEXT, ["a"]] },
  "/string" => ->(_) { [200, TEXT, "no body"] },
  "/raise" => ->(_) { raise ArgumentError, "wrong\0words" },
  "/exit" => ->(_) { exit 3 },
  "/hints" => method(:hints),
  "/callbacks" => method(:callbacks),
  "/callbacks-fail" => ->(env) { callbacks(env, fail: true) },
  "/hijack" => method(:hijack_full),
  "/hijack-partial" => ->(_) { ok([], "rack.hijack" => ->(io) { io.write("mine"); io.close }) },
  "/hijack-in-each" => ->(env) { ok(Enumerator.new { |out| (out << "a") && env["rack.hijack"].call.close && out << "b" }) },
  "/hijack-in-after-reply" => lambda do |env|
    env["rack.after_reply"] << -> { EVENTS << ((env["rack.hijack"].call && "hijacked") rescue $!.message) }
    ok([])
  end,
  "/hijack-fails" => ->(_) { ok([], "rack.hijack" => ->(_io) { raise "in the hijacker" }) },
  "/upgrade" => lambda { |_|
    [101, { "upgrade" => "echo" }, lambda { |io|
      io << io.readpartial(100).reverse
      io.close
    }]
  },
  "/read" => ->(env) { ok([env["rack.input"].read]) },
  "/read-parts" => lambda { |env|
    input = env["rack.input"]
    ok([[input.read(2), input.gets, input.read(3), input.read, input.read(1).inspect].join("|")])
  },
  "/read-twice" => lambda { |env|
    input = env["rack.input"]
    again = input.read
    input.rewind
    ok([again == input.read ? "same #{again.bytesize}" : "different"])
  },
  "/read-none" => ->(_) { ok(["ignored"]) },
  "/read-cut" => method(:read_cut),
  "/env" => lambda { |env|
    ok([env.reject { |_, value| value.is_a?(Proc) || value.is_a?(Method) }.map { |name, value| "#{name}=#{value.inspect}\n" }.join])
  },
  "/env-encodings" => ->(env) { ok([env.values.grep(String).map(&:encoding).uniq.inspect]) },
  "/spans" => method(:spans),
  "/print" => lambda { |env|
    puts "printed"
    env["rack.errors"].puts("to errors")
    ok(["printed"])
  },
  "/wait" => lambda { |env|
    system("true") # a child of the app's own
    File.open(env["QUERY_STRING"], "r").read
    ok(["waited"])
  },
  "/pid" => ->(_) { ok([Process.pid.to_s]) },
  "/thread" => ->(_) { ok([Thread.current.name.to_s]) }
}.freeze

app = lambda do |env|
  if env["PATH_INFO"] == "/events"
    told = EVENTS.join("\n")
    EVENTS.clear
    return ok([told])
  end
  ROUTES.fetch(env["PATH_INFO"]).call(env)
end

use Rack::Lint if ENV["LINT"]
run app
