# frozen_string_literal: true

# What is no response, or hardly one. What can't be sent is an error page; what is sent is framed well whatever the application says of it.
module Hostile
  HUGE = 20 << 20

  group "status" do
    [0, -1, 1, 99, 600, 1000, 2**70, "abc", "", nil].each { |status| behaviour(status.inspect, 500) { [status, {}, [token]] } }
    [100, 101, 102, 103, 199].each { |status| behaviour(status.to_s, 500) { [status, {}, [token]] } }
    behaviour("\"200\"", 200) { ["200", {}, [token]] }
    behaviour("200.9", 200) { [200.9, {}, [token]] }
    behaviour("599", 599) { [599, {}, [token]] }
    behaviour("an array", 500) { [[200], {}, [token]] }
    behaviour("a to_i of nonsense", 500) { [object(to_i: -> { "x" }), {}, []] }
    [204, 304].each do |status|
      behaviour("#{status} with a body", status) { [status, { "content-length" => "5" }, ["hello"]] }
      behaviour("#{status} with a stream", status) { [status, { "transfer-encoding" => "chunked" }, body { |out| out.call("5\r\nhello\r\n0\r\n\r\n") }] }
    end
    behaviour("HEAD with a body", 200, method: "HEAD") { ok }
    behaviour("HEAD with a stream", 200, method: "HEAD") { streamed { |out| loop { out.call("x") } } }
    behaviour("HEAD with a false length", 200, method: "HEAD") { ok([], "content-length" => "-5") }
  end

  group "response" do
    behaviour("nil", 500) { nil }
    behaviour("an empty array", 500) { [] }
    behaviour("a status alone", 500) { [200] }
    behaviour("no body", 500) { [200, {}] }
    behaviour("four elements", 200) { [200, {}, [token], "more"] }
    behaviour("a string", 500) { "hello" }
    behaviour("a number", 500) { 42 }
    behaviour("a hash", 500) { { 200 => {} } }
    behaviour("an object of BasicObject", 500) { BasicObject.new }
    behaviour("a frozen array", 200) { [200, {}.freeze, [token.dup.freeze].freeze].freeze }
    behaviour("a to_ary of nonsense", 500) { object(to_ary: -> { 1 }) }
    behaviour("the env", 500) { |env| env }
    behaviour("the env as body", 500, 200) { |env| [200, {}, env] }
    behaviour("the env, emptied", 200, 500) { |env| env.clear && ok([]) }
    behaviour("the env, frozen", 200) { |env| env.freeze && ok }
    behaviour("the env, spoilt", 200) { |env| env.each_key { |name| env[name] = 1 } && ok([]) }
  end

  group "headers" do
    behaviour("nil", 200) { [200, nil, [token]] }
    behaviour("a string", 500) { [200, "content-type: text/plain", [token]] }
    behaviour("an array of pairs", 200) { [200, [%w[x-a b]], [token]] }
    behaviour("an array of nonsense", 200, 500) { [200, [1, nil, [[]]], [token]] }
    behaviour("20 MB of a value", 500, 502) { ok([token], "x-hostile" => "x" * HUGE) }
    behaviour("2 MB of a value", 200, 500, 502) { ok([token], "x-hostile" => "x" * (2 << 20)) }
    behaviour("20 MB of a name", 500, 502) { ok([token], "x" * HUGE => "x") }
    behaviour("70 KB of a name", 200, 500, 502) { ok([token], "x" * 70_000 => "x") }
    behaviour("20 MB of many", 500, 502) { ok([token], Array.new(20_000) { |n| ["x-#{n}", "x" * 1000] }.to_h) }
    behaviour("10,000", 200, 500) { ok([token], Array.new(10_000) { |n| ["x-#{n}", "x"] }.to_h) }
    behaviour("100,000", 500) { ok([token], Array.new(100_000) { |n| ["x-#{n}", "x"] }.to_h) }
    behaviour("100,000 lines of one", 500) { ok([token], "set-cookie" => (["a=b"] * 100_000).join("\n")) }
    ["\r\n", "\n", "\r", "\0", ":", " ", "", "\xff", "\u00e9", "a b", "a:b"].each { |name| behaviour("the name #{name.dump}", 500) { ok([token], name => "x") } }
    ["a\r\nb: c", "a\rb", "a\0b"].each { |value| behaviour("the value #{value.dump}", 500) { ok([token], "x-hostile" => value) } }
    behaviour("the value \"a\\nb: c\"", 200) { ok([token], "x-hostile" => "a\nb: c") }
    behaviour("a value with bytes of no encoding", 200, 500) { ok([token], "x-hostile" => "\xff\xfe") }
    behaviour("a value in UTF-16", 200, 500) { ok([token], "x-hostile" => "h\u00e9".encode("UTF-16LE")) }
    behaviour("a value with control characters", 200, 500) { ok([token], "x-hostile" => "\e[2J\x7f\b") }
    behaviour("a list with line ends", 500) { ok([token], "x-hostile" => ["a\r\nb: c"]) }
    behaviour("a list in a list", 200, 500) { ok([token], "x-hostile" => [["a\r\nb"], [nil]]) }
    behaviour("names that are no strings", 200, 500) { ok([token], :a => "b", 1 => "c", nil => "d") }
    behaviour("values that are no strings", 200, 500) { ok([token], "a" => 1, "b" => nil, "c" => :d, "e" => Object.new, "f" => {}) }
    behaviour("a to_s of a number", 500) { ok([token], "x-hostile" => object(to_s: -> { 1 })) }
    behaviour("pairs that change as they are read", 200, 500) { ok([token], {}.tap { |all| all.default_proc = ->(hash, key) { hash[key] = "x" } }) }
    behaviour("a value that changes", 200) { ok([token], "x-hostile" => (+"a").tap { |value| Thread.new { 1000.times { value.replace("b" * rand(9)) } } }) }
    [["too short", "3"], ["too long", "99"], ["negative", "-1"], ["no number", "x"], ["two in one", "5, 5"], ["immense", "9" * 30], ["hex", "0x5"], ["with a sign", "+5"]].each do |what, length|
      behaviour("a length that is #{what}, of an array", 200) { ok([token], "content-length" => length) }
      behaviour("a length that is #{what}, of a stream", 200, 500, 502, :cut, :closed) { streamed("content-length" => length) { |out| out.call(token); sleep(0.01) && out.call("x") } }
    end
    behaviour("two lengths", 200) { ok([token], "content-length" => "3\n4") }
    behaviour("two lengths by case", 200) { ok([token], "content-length" => "3", "Content-Length" => "4") }
    behaviour("a length and a coding", 200, 500) { ok(["5\r\nhello\r\n0\r\n\r\n"], "content-length" => "3", "transfer-encoding" => "chunked") }
    ["chunked", "Chunked", "gzip", "chunked, chunked", "gzip, chunked", "identity", "x\tchunked", "", "chunked;q=1"].each do |coding|
      behaviour("the coding #{coding.inspect}", 200, 500) { ok([token], "transfer-encoding" => coding) }
      behaviour("the coding #{coding.inspect} of a stream", 200, 500, :cut) { streamed("transfer-encoding" => coding) { |out| out.call(token); sleep(0.01) && out.call("x") } }
    end
    behaviour("chunks with more behind them", 200, 500) { ok(["0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"], "transfer-encoding" => "chunked") }
    behaviour("a chunk of 2**64", 500, :cut) { ok(["ffffffffffffffff\r\n"], "transfer-encoding" => "chunked") }
    ["close", "keep-alive", "upgrade", "x-hostile, content-length"].each { |value| behaviour("Connection: #{value}", 200) { ok([token], "connection" => value) } }
    behaviour("an upgrade unasked", 200) { ok([token], "upgrade" => "websocket") }
    behaviour("a trailer", 200) { ok([token], "trailer" => "x-hostile") }
    behaviour("dates and servers", 200) { ok([token], "date" => "yesterday\ntomorrow", "server" => "x", "status" => "999") }
    behaviour("Content-Encoding of nonsense", 200) { ok([token], "content-encoding" => "hostile, gzip, br") }
    behaviour("Content-Type of nonsense", 200) { ok([token], "content-type" => ";;;==\"") }
    behaviour("Cache-Control of nonsense", 200) { ok([token], "cache-control" => "max-age=99999999999999999999, public, s-maxage=-1, x=\"", "vary" => ",,*\",") }
    behaviour("ETag and Last-Modified of nonsense", 200) { ok([token], "etag" => "\"", "last-modified" => "32 Foo 10000", "expires" => "-1", "age" => "x") }
    behaviour("X-Sendfile to what is not there", 404, 500, 200) { ok([token], "x-sendfile" => "/nonexistent/\0".delete("\0")) }
    behaviour("X-Sendfile to a folder", 404, 500, 200) { ok([token], "x-sendfile" => "/") }
    behaviour("X-Sendfile to a device", 404, 500, 200) { ok([token], "x-sendfile" => "/dev/zero") }
    behaviour("Link of nonsense", 200) { ok([token], "link" => "<" * 10_000) }
    behaviour("Surrogate-Control of nonsense", 200) { ok(["<esi:include src='#{"x" * 10_000}"], "surrogate-control" => "content=\"ESI/1.0") }
    behaviour("rack.hijack that can't be called", 500) { ok([token], "rack.hijack" => 1) }
  end

  group "body" do
    [nil, 1, Object.new, :hello, 1.0, true].each { |body| behaviour("of #{body.class}", 500) { ok(body) } }
    behaviour("a string", 500) { ok("hello") }
    behaviour("a hash", 200, 500) { ok("a" => "b") }
    behaviour("an array of nil and numbers", 200) { ok([nil, 1, :a, token]) }
    behaviour("an array of arrays", 200) { ok([["a", ["b"]], [[]]]) }
    behaviour("an array in itself", 200) { ok([].tap { |all| all << all }) }
    behaviour("yields nil and numbers", 200) { streamed { |out| [nil, 1, :a, token, []].each(&out) } }
    behaviour("yields nothing", 200) { streamed { nil } }
    behaviour("yields without a value", 200) { streamed(&:call) }
    behaviour("yields several values", 200) { streamed { |out| out.call(token, "b", "c") } }
    behaviour("yields 100,000 empty strings", 200) { streamed { |out| 100_000.times { out.call("") } } }
    behaviour("yields a frozen string", 200) { streamed { |out| out.call(token.dup.freeze) } }
    behaviour("a string of 20 MB", 200) { ok(["#{token}\n" * 1_000_000]) }
    behaviour("yields 20 MB", 200) { streamed { |out| out.call("#{token}\n" * 1_000_000) } }
    behaviour("100,000 strings", 200) { ok(["x"] * 100_000) }
    behaviour("mixed encodings", 200) { ok(["\xff".b, "\u00e9", "h".encode("UTF-16LE"), "\xe9".dup.force_encoding("ISO-8859-1")]) }
    behaviour("yields mixed encodings", 200) { streamed { |out| ["\xff".b, "\u00e9", "h".encode("UTF-16LE"), "\xff".dup.force_encoding("UTF-8")].each(&out) } }
    behaviour("a dummy encoding", 200) { streamed { |out| out.call("hello".dup.force_encoding("UTF-7")) } }
    behaviour("a string that changes while it is sent", 200) { streamed { |out| text = +token and Thread.new { text.replace("x" * 9) } and out.call(text) } }
    behaviour("yields once more after the end", 200) { streamed { |out| (KEPT << out) && out.call(token) } }
    behaviour("yields to what is over", 200) { KEPT.grep(Proc).each { |out| out.call("hostile") rescue nil } && ok }
    behaviour("yields in another thread", 200, 500) { streamed { |out| Thread.new { out.call(token) }.join } }
    behaviour("yields in threads at once", 200, :cut) { streamed { |out| Array.new(4) { Thread.new { 200.times { out.call("#{token} ") } } }.each(&:join) } }
    behaviour("a thread goes on yielding", 200, :cut) { streamed { |out| out.call(token); Thread.new { 1000.times { out.call("hostile"); sleep(0.001) } } } }
    behaviour("a stream that is kept", 200) { ok(->(stream) { (KEPT << stream) && stream.write(token) }) }
    behaviour("streams that were kept are written", 200) { KEPT.grep(Paceline::Server::Stream).each { |stream| stream.write("hostile") rescue nil } && ok }
    behaviour("an env that was kept hijacks", 200) { |env| (KEPT << env) && ok }
    behaviour("an env that was kept is hijacked", 200) { KEPT.grep(Hash).each { |env| env["rack.hijack"].call.write("hostile") rescue nil } && ok }
    behaviour("each and call", 200) { ok(object(each: ->(&out) { out.call("hello") }, call: ->(_) { raise "hostile" })) }
    behaviour("close that closes again", 200) { streamed(close: -> { object(close: -> {}).close }) { |out| out.call(token) } }
    behaviour("close that yields", 200) { (kept = nil) || streamed(close: -> { kept.call("hostile") }) { |out| (kept = out) && out.call(token) } }
    behaviour("without end", 200, :cut, reads: 500_000) { streamed { |out| loop { out.call("#{token} ") } } }
    behaviour("without end, whose client takes nothing", 200, :cut, reads: 0) { streamed { |out| loop { out.call("#{token} " * 1000) } } }
    behaviour("a file that is not there", 500, 404, 200) { ok(object(to_path: -> { "/nonexistent" }, each: ->(&out) { out.call("hello") })) }
    behaviour("a folder as a file", 500, 404, 200) { ok(object(to_path: -> { "/" }, each: ->(&out) { out.call("hello") })) }
    behaviour("a device as a file", 500, 404, 200) { ok(object(to_path: -> { "/dev/zero" }, each: ->(&out) { out.call("hello") })) }
    behaviour("a file of no length", 200, 500) { ok(object(to_path: -> { "/proc/self/status" }, each: ->(&out) { out.call("hello") })) }
    behaviour("a path with NUL", 500, 200) { ok(object(to_path: -> { "a\0b" }, each: ->(&out) { out.call("hello") })) }
    behaviour("a path that is none", 500, 404, 200) { ok(object(to_path: -> { 1 }, each: ->(&out) { out.call("hello") })) }
    behaviour("a file that shrinks", 200, 500, 502, :cut, :closed) { File.write("shrinks", "x" * 5_000_000) && ok(object(to_path: -> { "shrinks" }, each: -> {}, close: -> { File.truncate("shrinks", 1) })) }
    behaviour("100,000 callbacks", 200) { |env| env["rack.after_reply"].concat([-> {}] * 100_000) && ok }
    behaviour("callbacks that make callbacks", 200) { |env| (env["rack.after_reply"] << -> { env["rack.after_reply"] << -> { nil } if env["rack.after_reply"].size < 1000 }) && ok }
    behaviour("callbacks that are none", 200) { |env| (env["rack.after_reply"] = 1) && ok }
    behaviour("callbacks that can't be called", 200) { |env| env["rack.after_reply"].push(nil, 1, "x") && ok }
  end
end
