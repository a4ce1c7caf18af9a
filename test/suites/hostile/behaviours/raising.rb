# frozen_string_literal: true

# Whatever Ruby can raise, wherever the server calls the application's code. The answer has not begun in most of these places, so the client gets an error
# page; where it has, it breaks off; and after it nobody sees anything.
module Hostile
  RAISES = {
    "exit" => -> { exit },
    "abort" => -> { abort("hostile: aborted") },
    "Interrupt" => -> { raise Interrupt },
    "SignalException" => -> { raise SignalException, "TERM" },
    "NoMemoryError" => -> { raise NoMemoryError, "hostile" },
    "endless recursion" => -> { recurse = -> { recurse.call + 1 } and recurse.call },
    "throw" => -> { throw :hostile },
    "fatal" => -> { raise ObjectSpace.each_object(Class).find { |type| type.name == "fatal" }.allocate },
    "an error without a message" => -> { raise Class.new(StandardError) { def message = raise("hostile") } },
  }.freeze

  group "raising" do
    RAISES.each do |what, code|
      behaviour("#{what} in call", 500) { code.call }
      behaviour("#{what} in the headers' each", 500) { [200, object(each: code), []] }
      behaviour("#{what} in a header's to_s", 500) { [200, { "x-hostile" => object(to_s: code) }, []] }
      behaviour("#{what} in the status' to_i", 500) { [object(to_i: code), {}, []] }
      behaviour("#{what} in to_ary", 500) { ok(object(to_ary: code, each: -> {})) }
      behaviour("#{what} in each, at once", 500) { streamed { code.call } }
      behaviour("#{what} in each, later", :cut) { streamed { |out| out.call("#{token} #{"x" * 200_000}"); code.call } }
      behaviour("#{what} in a part's to_s", 500) { streamed { |out| out.call(object(to_s: code)) } }
      behaviour("#{what} in close", 200) { streamed(close: code) { |out| out.call(token) } }
      behaviour("#{what} in to_path", 500) { ok(object(to_path: code)) }
      behaviour("#{what} in a callable body", 500) { ok(->(_) { code.call }) }
      behaviour("#{what} in rack.after_reply", 200) { |env| (env["rack.after_reply"] << code) && ok }
      behaviour("#{what} when the env is read", 500) { |env| env.define_singleton_method(:[]) { |_| code.call } || ok }
      behaviour("#{what} when rack.errors is written", 500) do |env|
        env["rack.errors"] = object(write: ->(*) { code.call }, flush: -> {})
        raise "hostile"
      end
    end
    behaviour("an error without a class", 500) { raise Class.new(StandardError) { def class = nil } }
    behaviour("an error that says it is the client's leaving", 500) { raise Paceline::ClientGone }
    behaviour("an error with a backtrace of nonsense", 500) { raise RuntimeError.new("x").tap { |error| error.set_backtrace(["\xff\0:x:-1"] * 10_000) } }
    behaviour("an error with a message of 20 MB", 500) { raise "hostile " * 2_500_000 }
    behaviour("an error with terminal sequences", 500) { raise "\e]0;hostile\a\e[2J\r\n\r\nHTTP/1.1 200 OK" }
    behaviour("an error with itself as its cause's cause", 500) { raise Class.new(StandardError) { def cause = self } }
    behaviour("a syntax error", 500) { eval("def (") }
    behaviour("Thread.exit in call", 500, 502) { Thread.exit }
    behaviour("Thread.exit in each", :cut) { streamed { |out| out.call("#{token} #{"x" * 200_000}"); Thread.exit } }
    behaviour("Thread.exit in close", 200, kills: true) { streamed(close: -> { Thread.exit }) { |out| out.call(token) } }
    behaviour("Thread.exit in rack.after_reply", 200, kills: true) { |env| (env["rack.after_reply"] << -> { Thread.exit }) && ok }
    behaviour("Fiber.yield in call", 500) { Fiber.yield }
    behaviour("another thread raises here", 500) { (here = Thread.current) && Thread.new { here.raise("hostile") } && sleep }
    behaviour("another thread raises here for ever", 200, 500, 502, kills: true) do
      here = Thread.current
      Thread.new { 200.times { here.raise("hostile") if here.alive? } }
      ok
    end
    behaviour("Timeout in the midst of writing", 200, :cut) do
      streamed { |out| Timeout.timeout(0.01) { loop { out.call("#{token} " * 1000) } } rescue nil }
    end
  end
end
