# frozen_string_literal: true

# The application takes the connection, or the input, and does with it what it should not. And clients that try what SECURITY.md says is refused.
module Hostile
  # A client that closes may only have shut down its sending side: for keepalive_timeout the application can still answer it.
  group "hijack", "app_hard_timeout = \"1s\"\nkeepalive_timeout = \"3s\"\n" do
    behaviour("garbage", 500, 502, :closed) { |env| env["rack.hijack"].call.tap { |io| io.write("\xff\0garbage\r\n\r\n") && io.close } && nil }
    behaviour("nothing, closed", 500, 502, :closed) { |env| env["rack.hijack"].call.close || ok }
    behaviour("nothing, and never closed", 500, 502, :closed, reads: 0) { |env| (KEPT << env["rack.hijack"].call) && ok }
    behaviour("half a head, and never closed", 500, 502, :closed, reads: 0) { |env| (KEPT << env["rack.hijack"].call.tap { |io| io.write("HTTP/1.1 200 OK\r\n") }) && ok }
    behaviour("an answer, and never closed", 200, reads: 5) { |env| (KEPT << env["rack.hijack"].call.tap { |io| io.write("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello") }) && ok }
    behaviour("a stream, and never closed", 200, reads: 5) { |env| (KEPT << env["rack.hijack"].call.tap { |io| io.write("HTTP/1.1 200 OK\r\n\r\nhello") }) && ok }
    behaviour("a head without end", 500, 502, :closed) { |env| env["rack.hijack"].call.tap { |io| io.write("HTTP/1.1 200 OK\r\n", "X: #{"x" * 1000}\r\n" * 1000) rescue nil }.close || ok }
    behaviour("two answers", 200) { |env| env["rack.hijack"].call.tap { |io| io.write("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello" * 2) }.close || ok }
    behaviour("a length that is not kept", 200, :cut, :closed) { |env| env["rack.hijack"].call.tap { |io| io.write("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello") }.close || ok }
    behaviour("chunks of nonsense", 200, :cut, :closed) { |env| env["rack.hijack"].call.tap { |io| io.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello") }.close || ok }
    behaviour("101 unasked", 500, 502) { |env| env["rack.hijack"].call.tap { |io| io.write("HTTP/1.1 101 Switching Protocols\r\n\r\n") }.close || ok }
    behaviour("100 and nothing", 500, 502, :closed) { |env| env["rack.hijack"].call.tap { |io| io.write("HTTP/1.1 100 Continue\r\n\r\n") }.close || ok }
    behaviour("status 999", 500) { |env| env["rack.hijack"].call.tap { |io| io.write("HTTP/1.1 999 Hostile\r\nContent-Length: 0\r\n\r\n") }.close || ok }
    behaviour("twice", 500, 504) { |env| 2.times { env["rack.hijack"].call } && ok }
    behaviour("and raise", 500, 504) { |env| env["rack.hijack"].call && raise("hostile") }
    behaviour("and exit!", 500, 502, :closed) { |env| env["rack.hijack"].call && exit! }
    behaviour("in each", 500, 502, :cut, :closed) { |env| streamed { |out| out.call(token); env["rack.hijack"].call.close } }
    behaviour("after the answer", 200) { |env| (env["rack.after_reply"] << -> { env["rack.hijack"].call.write("hostile") }) && ok }
    behaviour("partial, and raise", :cut, 200, 500, 502) { ok([], "rack.hijack" => ->(_) { raise "hostile" }) }
    behaviour("partial, and never closed", 200, reads: 5) { ok([], "rack.hijack" => ->(io) { (KEPT << io) && io.write("hello") }) }
    behaviour("partial, and fork", 200) { ok([], "rack.hijack" => ->(io) { fork { io.write(token) } && Process.wait && io.close }) }
    behaviour("the socket is given to a child", 200) do |env|
      io = env["rack.hijack"].call
      spawn("printf 'HTTP/1.1 200 OK\\r\\nContent-Length: 5\\r\\n\\r\\nhello'", out: io)
      io.close
      ok
    end
  end

  group "input" do
    behaviour("closed", 200, method: "POST") { |env| env["rack.input"].close || ok }
    behaviour("replaced", 200, method: "POST") { |env| (env["rack.input"] = 1) && ok }
    behaviour("removed", 200, method: "POST") { |env| env.delete("rack.input") && ok }
    behaviour("read for ever", 200, method: "POST") { |env| 10_000.times { env["rack.input"].read } && ok }
    behaviour("read by a negative length", 200, 500, method: "POST") { |env| env["rack.input"].read(-1) && ok }
    behaviour("read in threads", 200, method: "POST") { |env| Array.new(4) { Thread.new { env["rack.input"].read(1) } }.each(&:join) && ok }
    behaviour("read by a child", 200, method: "POST") { |env| Process.wait(fork { env["rack.input"].read && exit!(true) }) && ok }
    behaviour("hints of nonsense", 200, 500) { |env| env["rack.early_hints"]&.call("a\r\nb" => "c") || ok }
    behaviour("10,000 hints", 200) { |env| 10_000.times { env["rack.early_hints"]&.call("link" => "</x>") } && ok }
    behaviour("rack.errors closed", 200) { |env| env["rack.errors"].close || ok }
    behaviour("rack.errors removed, and raise", 500) { |env| env["rack.errors"] = nil || raise("hostile") }
  end

  # SECURITY.md, in short: what a client may try on any application.
  group "clients" do
    seen = lambda do |name, expected, head, &code|
      behaviour(name, *expected, request: head, &code)
    end
    plain = ->(_) { ok }
    seen.call("two lengths", 400, "POST PATH HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", &plain)
    seen.call("a length and chunks", 400, "POST PATH HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", &plain)
    seen.call("a coding in disguise", [400, 501], "POST PATH HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", &plain)
    seen.call("a space before the colon", 400, "GET PATH HTTP/1.1\r\nHost : x\r\n\r\n", &plain)
    seen.call("a folded line", 400, "GET PATH HTTP/1.1\r\nHost: x\r\nX: a\r\n b\r\n\r\n", &plain)
    seen.call("a bare LF", 400, "GET PATH HTTP/1.1\nHost: x\n\n", &plain)
    seen.call("no host", 400, "GET PATH HTTP/1.1\r\n\r\n", &plain)
    seen.call("two hosts", 400, "GET PATH HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", &plain)
    seen.call("NUL in a value", 400, "GET PATH HTTP/1.1\r\nHost: x\r\nX: a\0b\r\n\r\n", &plain)
    seen.call("a head of 1 MB", 431, "GET PATH HTTP/1.1\r\nHost: x\r\nX: #{"x" * (1 << 20)}\r\n\r\n", &plain)
    seen.call("a name with _", 200, "GET PATH HTTP/1.1\r\nHost: x\r\nX_Forwarded_For: hostile\r\nConnection: close\r\n\r\n") do |env|
      ok([env.inspect.include?("hostile") ? "the application sees it" : token])
    end
    seen.call("Proxy", 200, "GET PATH HTTP/1.1\r\nHost: x\r\nProxy: hostile\r\nConnection: close\r\n\r\n") { |env| ok([env["HTTP_PROXY"] || token]) }
    seen.call("instructions for Rack::Sendfile", 200, "GET PATH HTTP/1.1\r\nHost: x\r\nX-Sendfile-Type: X-Sendfile\r\nX-Accel-Mapping: /=/\r\nConnection: close\r\n\r\n") do |env|
      ok([env["HTTP_X_SENDFILE_TYPE"] || env["HTTP_X_ACCEL_MAPPING"] || token])
    end
    seen.call("a trailer", 200, "POST PATH HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\nX-Hostile: hostile\r\n\r\n") do |env|
      env["rack.input"].read
      ok([env["HTTP_X_HOSTILE"] || token])
    end
    seen.call("a request behind the last", 200, "GET PATH HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\nGET /good?hostile HTTP/1.1\r\nHost: x\r\n\r\n", &plain)
  end
end
