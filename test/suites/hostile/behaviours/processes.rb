# frozen_string_literal: true

# The application ends its process, becomes another one, and forks in every way that there is. What it forks answers nobody and keeps nobody waiting.
module Hostile
  group "ending" do
    behaviour("exit!", 502) { exit! }
    behaviour("exit! 0", 502) { exit!(true) }
    behaviour("exit! in each", 502, :cut) { streamed { |out| out.call("#{token} #{"x" * 200_000}"); exit! } }
    behaviour("exit! in close", 200, kills: true) { streamed(close: -> { exit! }) { |out| out.call(token) } }
    behaviour("exit! in rack.after_reply", 200, kills: true) { |env| (env["rack.after_reply"] << -> { exit! }) && ok }
    behaviour("exit! in another thread", 502, kills: true) { Thread.new { exit! } && sleep }
    behaviour("exec", 502) { exec("true") }
    behaviour("exec of what does not end", 502) { linger }
    behaviour("exec of what does not exist", 500) { exec("/nonexistent") }
    behaviour("KILL to itself", 502) { Process.kill(:KILL, Process.pid) && sleep }
    behaviour("KILL to itself in each", :cut) { streamed { |out| out.call("#{token} #{"x" * 200_000}"); Process.kill(:KILL, Process.pid) && sleep } }
    behaviour("a POST that kills", 502, method: "POST") { Process.kill(:KILL, Process.pid) && sleep }
    behaviour("SEGV to itself", 502) { Process.kill(:SEGV, Process.pid) && sleep }
    behaviour("ABRT to itself", 502) { Process.kill(:ABRT, Process.pid) && sleep }
    behaviour("TERM to itself", 200, 502, kills: true) { Process.kill(:TERM, Process.pid) && ok }
    behaviour("TERM to all workers", 200, 502, kills: true) { `pgrep -P #{Process.ppid}`.split.each { |pid| Process.kill(:TERM, pid.to_i) rescue nil } && ok }
    behaviour("KILL to the preloader", 502) { Process.kill(:KILL, Process.ppid) && sleep }
    behaviour("TERM to the preloader", 200) { Process.kill(:TERM, Process.ppid) && ok }
    behaviour("the main thread is killed", 200, 500, 502, kills: true) { Thread.main.kill && ok }
    behaviour("all threads are killed", 500, 502, kills: true) { Thread.list.each(&:kill) && sleep }
    behaviour("something is raised in the main thread", 200, 502, kills: true) { Thread.main.raise("hostile"); ok }
    behaviour("a thread raises with abort_on_exception", 502, kills: true) do
      Thread.abort_on_exception = true
      Thread.new { raise "hostile" } && sleep
    end
    behaviour("a read of no address", 502) { Fiddle::Function.new(Fiddle.dlopen(nil)["strlen"], [1], 4).call(0) }
    behaviour("at_exit that never ends, and exit in the main thread", 200, 502, kills: true) { at_exit { sleep } && Thread.main.raise(SystemExit); ok }
  end

  group "forking" do
    behaviour("fork with a block", 200) { fork { nil } && ok }
    behaviour("fork, and both go on", 200) { fork; ok }
    behaviour("fork, and the child raises", 200) { fork.nil? ? raise("hostile") : ok }
    behaviour("fork, and the child throws", 200) { fork.nil? ? throw(:hostile) : ok }
    behaviour("fork, and the child exits with at_exit", 200) { fork { at_exit { $stdout.write("hostile child\n") } && exit(3) } && ok }
    behaviour("fork, and the child answers first", 200) { (pid = fork) ? Process.wait(pid) && ok : ok(["#{token} hostile"]) }
    behaviour("fork, and the child streams", 200) { fork; streamed { |out| 100.times { out.call(Process.pid.to_s * 1000) } } }
    behaviour("fork in each, and both go on", 200) { streamed { |out| out.call(token); fork && out.call(" more") } }
    behaviour("fork in each after a part was sent", 200) { streamed { |out| out.call("#{token} #{"x" * 200_000}"); fork; out.call("end") } }
    behaviour("fork in close", 200) { streamed(close: -> { fork }) { |out| out.call(token) } }
    behaviour("fork in rack.after_reply", 200) { |env| (env["rack.after_reply"] << -> { fork }) && ok }
    behaviour("fork in a thread", 200) { Thread.new { Process.fork { nil } }.join && ok }
    behaviour("two forks, one in the other", 200) { fork { fork { linger } } && ok }
    behaviour("Process.daemon in a child", 200) { fork { Process.daemon && linger } && ok }
    behaviour("Process.daemon here", 502) { Process.daemon && ok }
    behaviour("a child that goes on with all descriptors", 200) { (bare_fork.zero? ? linger : ok) }
    behaviour("a bare fork, and both answer", 200) { bare_fork; ok }
    behaviour("a bare fork that streams", 200) { bare_fork; streamed { |out| out.call(token); out.call("x" * 100_000) } }
    behaviour("a child that writes to the front", 200) { |env| fork { env["rack.hijack"].call.write("hostile") } && ok }
    behaviour("a child that sends early hints", 200) { |env| fork { env["rack.early_hints"]&.call("link" => "hostile") } && ok }
    behaviour("a child that kills its parent", 502) { fork { Process.kill(:KILL, Process.ppid) } && sleep }
    behaviour("a child that starts threads", 200) { fork { Array.new(4) { Thread.new { nil } }.each(&:join) } && ok }
    behaviour("30 children", 200) { 30.times { fork { nil } }; ok }
    behaviour("a child that stops itself", 200) { (pid = spawn("sleep", LINGERING)) && Process.kill(:STOP, pid) && ok }
    behaviour("Process.detach, and wait", 200) { fork { nil }.then { |pid| Process.detach(pid) && (Process.wait(pid) rescue nil) } || ok; ok }
    behaviour("a child of fork that forks and goes on", 200) { fork { fork; fork } && ok }
    behaviour("system", 200) { system("true") && ok }
    behaviour("backticks", 200) { ok([`echo`, token]) }
    behaviour("spawn, and no wait", 200) { spawn("true") && ok }
    behaviour("spawn with all descriptors", 200) { spawn("sleep", LINGERING, close_others: false, **descriptors.to_h { |number| [number, number] }) && ok }
    behaviour("popen left open", 200) { (KEPT << IO.popen("cat")) && ok }
    behaviour("popen of itself", 200) { (pipe = IO.popen("-")) ? pipe.read && ok : ok }
    behaviour("PTY without a word", 200) { require("pty") && PTY.spawn("true") && ok }
    behaviour("a session of its own", 200) { (Process.setsid rescue nil) && ok || ok }
    behaviour("SIGCHLD ignored", 200) { trap("CHLD", "IGNORE") && system("true") && ok || ok }
  end

  # What is never closed.
  KEPT = []
end
