# frozen_string_literal: true

# The application does not come back. Its server waits a second for it.
module Hostile
  group "hanging", "app_hard_timeout = \"1s\"\nstart_timeout = \"3s\"\n" do
    behaviour("loop", 504) { loop { nil } }
    behaviour("loop that rescues all", 504) { loop { sleep rescue Exception nil } }
    behaviour("sleep", 504) { sleep }
    behaviour("sleep in each, at once", 504) { streamed { sleep } }
    behaviour("sleep in each, later", 200, reads: 100_000, keeps: true, apart: true) { streamed { |out| out.call("#{token} #{"x" * 200_000}"); sleep } }
    behaviour("sleep in close", 200, keeps: true, apart: true) { streamed(close: -> { sleep }) { |out| out.call(token) } }
    behaviour("sleep in rack.after_reply", 200, keeps: true, apart: true) { |env| (env["rack.after_reply"] << -> { sleep }) && ok }
    behaviour("sleep in the headers' each", 504) { [200, object(each: -> { sleep }), []] }
    behaviour("sleep in to_path", 504) { ok(object(to_path: -> { sleep })) }
    behaviour("a hijack, and sleep", 504) { |env| env["rack.hijack"].call && sleep }
    behaviour("STOP to itself", 504) { Process.kill(:STOP, Process.pid) && sleep }
    behaviour("STOP to the preloader", 200) { Process.kill(:STOP, Process.ppid) && ok }
    behaviour("STOP to the preloader, and exit!", 502) { Process.kill(:STOP, Process.ppid) && exit! }
    behaviour("a thread waits for itself", 500, 504) { Mutex.new.tap(&:lock).lock }
    behaviour("a queue that nobody fills", 504) { Queue.new.pop }
    behaviour("Thread.stop", 504) { Thread.stop && ok }
    behaviour("Thread.critical, nearly", 504) { Thread.handle_interrupt(Object => :never) { sleep } }
    behaviour("C code that keeps the lock", 504) { Fiddle::Function.new(Fiddle.dlopen(nil)["pause"], [], 4, need_gvl: true).call }
    behaviour("a regular expression", 504) { "#{"a" * 60}!".match?(/\A(a|a|b?)*\1\z/) || sleep }
    behaviour("a FIFO that nobody writes", 504) { (File.mkfifo("hostile.fifo") rescue nil); File.read("hostile.fifo") }
    behaviour("a file that is a FIFO", 200, 404, 500, 502, 504) { (File.mkfifo("hostile.fifo") rescue nil); ok(object(to_path: -> { "hostile.fifo" }, each: -> {})) }
    behaviour("TERM ignored, and sleep", 504) { trap("TERM", "IGNORE") && sleep || sleep }
    behaviour("TERM trapped, and TERM to itself", 504) { trap("TERM") { sleep } && Process.kill(:TERM, Process.pid) && sleep || sleep }
    behaviour("EXIT trapped by sleep, and exit in the main thread", 200, 502, 504, kills: true) { trap("EXIT") { sleep } || Thread.main.raise(SystemExit); ok }
    behaviour("every signal trapped", 200) { (Signal.list.keys - %w[EXIT KILL STOP SEGV BUS ILL FPE VTALRM]).each { |name| trap(name) { nil } rescue nil } && ok }
    behaviour("half a frame, and sleep", 502, 504) { channel.io.write(F.response_head(channel.request, 200, 0, COUNTERS, "", 100), "half") && sleep }
    behaviour("ever more threads", 200) { 200.times { Thread.new { sleep } }; ok }
    behaviour("wait for a child that sleeps", 504) { Process.wait(spawn("sleep", LINGERING)) && ok }
    behaviour("flock with itself", 504) { 2.times { File.open("hostile.lock", "w").flock(File::LOCK_EX) } && ok }
    behaviour("a body that is written by drops", 200, 504, :cut) { streamed { |out| 50.times { out.call(token); sleep(0.02) } } }
    behaviour("headers without end", 500, 502, 504, kills: true) { [200, object(each: ->(&pair) { loop { pair.call("a", "b" * 1000) } }), []] }
    behaviour("reads more body than there is", 200, method: "POST") { |env| env["rack.input"].read(1 << 30) || ok }
  end
end
