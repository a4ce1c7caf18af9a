# frozen_string_literal: true

# The application spoils what is around it: its process, Ruby's own methods, the server's files. Some of it is for good, and has a server of its own.
module Hostile
  group "surroundings", "app_hard_timeout = \"2s\"\n" do
    behaviour("ENV emptied", 200) { ENV.clear && ok }
    behaviour("ENV of nonsense", 200) { ENV.update("PACELINE_CONTROL" => "/nonexistent", "PACELINE_CONTROL_FD" => "7", "LISTEN_FDS" => "99", "RUBYOPT" => "-x") && ok }
    behaviour("a folder that is gone", 200) { removed_folder && ok }
    behaviour("umask", 200) { File.umask(0o777) && ok }
    behaviour("a title of 1 MB", 200) { Process.setproctitle("x" * (1 << 20)) && ok }
    behaviour("another priority", 200) { Process.setpriority(Process::PRIO_PROCESS, 0, 19) && ok }
    behaviour("another seed", 200) { srand(0) && ok }
    behaviour("other separators", 200) { ($, = nil) || ($; = nil) || ok }
    behaviour("another internal encoding", 200) { (Encoding.default_internal = "UTF-16LE") && ok }
    behaviour("another external encoding", 200) { (Encoding.default_external = "EUC-JP") && ok }
    behaviour("no garbage collection, and 300 MB", 200) { GC.disable || Array.new(300) { "x" * (1 << 20) }.clear && GC.enable && ok }
    behaviour("garbage collection all the time", 200) { (GC.stress = true) && ok.tap { GC.stress = false } }
    behaviour("GC.compact", 200) { GC.compact && ok }
    behaviour("NOFILE 0", 200, 502, kills: true) { Process.setrlimit(:NOFILE, 0, Process.getrlimit(:NOFILE)[1]) || ok }
    behaviour("FSIZE 0", 200, 502, kills: true) { Process.setrlimit(:FSIZE, 0, 0) || ok }
    behaviour("CPU 0", 200, 502, kills: true) { Process.setrlimit(:CPU, 1, 1) || ok }
    behaviour("AS as it is", 200, 500, 502, :cut, kills: true) { Process.setrlimit(:AS, 1 << 20) || ok(["x" * 1000] * 10_000) }
    behaviour("NPROC 0", 200, 502, kills: true) { Process.setrlimit(:NPROC, 0, 0) || ok }
    behaviour("another account", 200, 502, kills: true) { (Process::UID.change_privilege(65_534) if Process.uid.zero?) && ok || ok }
    behaviour("threads that are ours, spoilt", 200) { Thread.list.each { |thread| thread.name = "x" } && ok }
    behaviour("the channel's variable, removed", 200) { (Thread.current[:paceline_channel] = nil) || ok }
    behaviour("a fiber that is left", 200) { (KEPT << Fiber.new { Fiber.yield }.tap(&:resume)) && ok }
    behaviour("a scheduler", 200, 500, 502) { (Fiber.set_scheduler(object(block: -> {}, unblock: -> {}, kernel_sleep: -> {}, io_wait: -> {}, fiber: -> {}, close: -> {})) rescue nil) ? ok : ok }
    behaviour("a trace point that raises", 200, 500, 502, 504, kills: true) { TracePoint.new(:c_call) { raise "hostile" }.enable && ok }
    behaviour("a finalizer that raises", 200) { ObjectSpace.define_finalizer(Object.new, proc { raise "hostile" }) && GC.start || ok }
  end

  group "the server's files" do
    behaviour("garbage to $PACELINE_CONTROL", 200) { UNIXSocket.open(ENV.fetch("PACELINE_CONTROL")) { |io| io.write("\xff\0" * 10_000) rescue nil } && ok || ok }
    behaviour("$PACELINE_CONTROL, and never a word", 200) { 20.times { hold(UNIXSocket.open(ENV.fetch("PACELINE_CONTROL"))) } && ok }
    behaviour("$PACELINE_CONTROL asked and never heard", 200) { 20.times { hold(UNIXSocket.open(ENV.fetch("PACELINE_CONTROL"))).write("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 50) } && ok }
    behaviour("events that nobody reads", 200) { 20.times { hold(UNIXSocket.open(ENV.fetch("PACELINE_CONTROL"))).write("GET /events HTTP/1.1\r\nHost: x\r\n\r\n") } && ok }
    behaviour("a purge of nonsense", 200) { UNIXSocket.open(ENV.fetch("PACELINE_CONTROL")) { |io| io.write("POST /cache/purge HTTP/1.1\r\nHost: x\r\nContent-Length: 999\r\nConnection: close\r\n\r\n{") } && ok }
    behaviour("$PACELINE_CONTROL unlinked", 200) { File.unlink(ENV.fetch("PACELINE_CONTROL")) && ok }
    behaviour("$PACELINE_CONTROL as a folder", 200) { (File.unlink(ENV.fetch("PACELINE_CONTROL")) rescue nil) || FileUtils.mkdir_p(ENV.fetch("PACELINE_CONTROL")) && ok }
    behaviour("tmp without rights", 200) { File.chmod(0, "tmp") && ok }
    behaviour("tmp removed", 200) { FileUtils.rm_rf("tmp") && ok }
    behaviour("config.ru removed", 200) { File.unlink("config.ru") && ok }
    behaviour("config.ru of nonsense", 200) { File.write("config.ru", "def (") && ok }
    behaviour("paceline.toml of nonsense", 200) { File.write("paceline.toml", "\xff = [") && ok }
    behaviour("all of the folder removed", 200, apart: true) { FileUtils.rm_rf(Dir.pwd) && ok }
    behaviour("all that the server has open, truncated", 200, apart: true) do
      Dir["/proc/#{File.read("/proc/#{Process.ppid}/stat").split[3]}/fd/*"].each do |path|
        File.truncate(path, 0) if File.stat(path).file? && !File.readlink(path).end_with?("paceline")
      rescue SystemCallError
        nil
      end
      ok
    end
    behaviour("a restart, asked from within", 200, apart: true) do
      UNIXSocket.open(ENV.fetch("PACELINE_CONTROL")) { |io| io.write("POST /restart HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}") && io.read(12) } && ok
    end
  end

  # The methods are replaced in one worker; the others serve.
  SPOILT = {
    "String#to_s" => -> { String.define_method(:to_s) { "hostile" } },
    "String#bytesize" => -> { String.define_method(:bytesize) { 3 } },
    "String#<<" => -> { String.define_method(:<<) { |_| self } },
    "String#b" => -> { String.define_method(:b) { "hostile" } },
    "Array#each" => -> { Array.define_method(:each) { self } },
    "Array#pack" => -> { Array.define_method(:pack) { |_| "hostile" } },
    "Array#join" => -> { Array.define_method(:join) { |*| "hostile" } },
    "Hash#each" => -> { Hash.define_method(:each) { self } },
    "Hash#[]" => -> { Hash.define_method(:[]) { |_| "hostile" } },
    "Integer#to_i" => -> { Integer.define_method(:to_i) { 418 } },
    "Integer#between?" => -> { Integer.define_method(:between?) { |*| false } },
    "NilClass#to_s" => -> { NilClass.define_method(:to_s) { "hostile" } },
    "Time.now" => -> { Time.define_singleton_method(:now) { |*| raise "hostile" } },
    "Process.clock_gettime" => -> { Process.define_singleton_method(:clock_gettime) { |*| -1 } },
    "Process.pid" => -> { Process.define_singleton_method(:pid) { 1 } },
    "IO#write" => -> { IO.define_method(:write) { |*| 0 } },
    "IO#syswrite" => -> { IO.define_method(:syswrite) { |_| 0 } },
    "IO.select" => -> { IO.define_singleton_method(:select) { |*| nil } },
    "BasicSocket#readpartial" => -> { BasicSocket.define_method(:readpartial) { |*| "\xff" * 100 } },
    "Kernel#raise" => -> { Kernel.define_method(:raise) { |*| nil } },
    "Kernel#exit!" => -> { Kernel.define_method(:exit!) { |*| nil } },
    "Mutex#synchronize" => -> { Mutex.define_method(:synchronize) { nil } },
    "Thread.new" => -> { Thread.define_singleton_method(:new) { |*| nil } },
    "Object#respond_to?" => -> { Object.define_method(:respond_to?) { |*| true } },
    "Object#instance_of?" => -> { Object.define_method(:instance_of?) { |_| true } },
    "Object#frozen?" => -> { Object.define_method(:frozen?) { true } },
    "Exception#message" => -> { Exception.define_method(:message) { raise "hostile" } },
    "StringIO" => -> { Object.send(:remove_const, :StringIO) },
    "Paceline" => -> { Object.send(:remove_const, :Paceline) },
    "Paceline::Server::Frames" => -> { Paceline::Server.send(:remove_const, :Frames) },
  }.freeze

  group "spoilt methods", "app_hard_timeout = \"2s\"\n" do
    SPOILT.each { |name, code| behaviour(name, 200, 418, 500, 502, 503, 504, :closed, :cut, apart: true, spoils: true) { code.call && ok || ok } }
  end
end
