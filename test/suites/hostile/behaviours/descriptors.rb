# frozen_string_literal: true

# The application meddles with what its process has open, and with what it says to the front: garbage, and frames that are well made and lie. The answer
# may be lost with the worker, but it is never another one.
require_relative "../../../../gem/lib/paceline/server/frames"

module Hostile
  F = Paceline::Server::Frames
  COUNTERS = F::Counters.new(0, 0, 0, 0, 0, "")

  # Whatever becomes of it; the worker may be lost at any time.
  ANYTHING = [200, 500, 502, :cut, :closed].freeze

  group "descriptors" do
    behaviour("writes 4 MB to its outputs", 200) { $stdout.write("hostile\n" * 500_000) && ok }
    behaviour("writes a line of 4 MB", 200) { $stdout.write("hostile " * 500_000) && ok }
    behaviour("closes 3 to 50", *ANYTHING) { (3..50).each { |number| IO.for_fd(number).close rescue nil } && ok }
    behaviour("closes all by the system", *ANYTHING) { descriptors.each { |number| Fiddle::Function.new(Fiddle.dlopen(nil)["close"], [1], 1).call(number) } && ok }
    behaviour("closes its sockets", *ANYTHING) { each_socket(&:close) && ok }
    behaviour("closes its outputs", 200) { [0, 1, 2].each { |number| io(number).close rescue nil } && ok }
    behaviour("closes the three by name", 200) { [$stdin, $stdout, $stderr].each(&:close) && ok }
    behaviour("reopens its outputs", 200) { [$stdout, $stderr].each { |output| output.reopen(File::NULL) } && ok }
    behaviour("replaces its outputs", 200) { ($stdout = StringIO.new) && ok }
    behaviour("puts /dev/null over its sockets", *ANYTHING, kills: true) { sockets.each { |number| io(number).reopen(File::NULL) } && ok }
    behaviour("puts one socket over the others", *ANYTHING, kills: true) { sockets.drop(1).each { |number| io(number).reopen(io(sockets.first)) } && ok }
    behaviour("writes garbage to its sockets", *ANYTHING, kills: true) { each_socket { |socket| socket.write("\xff" * 1000) } && ok }
    behaviour("writes HTTP to its sockets", *ANYTHING, kills: true) { each_socket { |socket| socket.write("HTTP/1.1 200 OK\r\n\r\n#{token}") } && ok }
    behaviour("writes zeroes to its sockets", *ANYTHING, kills: true) { each_socket { |socket| socket.write("\0" * 100_000) } && ok }
    behaviour("reads its sockets", *ANYTHING, kills: true) { each_socket { |socket| socket.read_nonblock(100_000) } && ok }
    behaviour("shuts its sockets down", *ANYTHING, kills: true) { each_socket(&:shutdown) && ok }
    behaviour("shuts its sockets down for writing", *ANYTHING, kills: true) { each_socket(&:close_write) && ok }
    behaviour("makes its sockets non-blocking and fills them", *ANYTHING, kills: true) do
      each_socket { |socket| loop { socket.write_nonblock("\0" * 65_536) } }
      ok
    end
    behaviour("opens files until there are no more", 200, 500, 502, kills: true) do
      Process.setrlimit(:NOFILE, 100)
      begin
        200.times { KEPT << File.open(File::NULL) }
      rescue SystemCallError
        nil
      end
      ok
    end
    behaviour("closes the channel and answers", *ANYTHING) { channel.io.close && ok || ok }
    behaviour("half a frame and exit!", 502) { channel.io.write(F.response_head(channel.request, 200, 0, COUNTERS, "", 100), "half") && exit! }
    behaviour("half a stream and exit!", :cut, 502) { streamed { |out| out.call("#{token} #{"x" * 200_000}"); channel.io.write(F.chunk_head(channel.request, 500), "half") && exit! } }
  end

  group "frames on the channel" do
    answer = lambda do |name, *expected, **options, &bytes|
      behaviour(name, *expected, kills: true, **options) { channel.io.write(instance_exec(channel.request, &bytes)) && ok }
    end
    answer.call("an answer before the answer", *ANYTHING) { |n| F.response_head(n, 200, 0, COUNTERS, "", token.bytesize) + token }
    answer.call("an end without a head", *ANYTHING) { |n| F.ending(F::END_, n, 0, COUNTERS) }
    answer.call("a chunk without a head", *ANYTHING) { |n| F.chunk_head(n, 1) + "x" }
    answer.call("a file without a head", *ANYTHING) { |n| F.answer(F::FILE, n, "/etc/passwd") }
    answer.call("two heads", *ANYTHING) { |n| F.head(n, 200, 0, "") * 2 }
    answer.call("a head and a whole answer", *ANYTHING) { |n| F.head(n, 200, 0, "") }
    answer.call("an idle before the answer", *ANYTHING) { |n| F.answer(F::IDLE, n) }
    answer.call("a hijack unasked", *ANYTHING) { |n| F.answer(F::HIJACK, n) }
    # Its connection is the application's, which may hold it for as long as its client stays.
    answer.call("a raw head unasked", *ANYTHING, reads: 5) { |n| F.head(n, 200, F::RAW, "") }
    answer.call("a file that is announced and never named", *ANYTHING) { |n| F.head(n, 200, F::FILE_FOLLOWS, "") + F.ending(F::END_, n, 0, COUNTERS) }
    answer.call("the head of a stream and a whole answer", *ANYTHING) { |n| F.head(n, 200, F::STREAM, "") }
    answer.call("all flags at once", *ANYTHING, reads: 5) { |n| F.head(n, 200, 255, "") }
    answer.call("a frame of an unknown type", *ANYTHING) { |n| F.answer(0xfe, n) }
    answer.call("a frame of the control socket", *ANYTHING) { F.frame(F::READY) }
    answer.call("a request", *ANYTHING) { |n| F.answer(F::REQUEST, n, "\1\0\0\0\0") }
    answer.call("an empty frame", *ANYTHING) { F.frame(F::RESPONSE) }
    answer.call("a frame of 4 GB", *ANYTHING) { [0xffff_ffff, F::RESPONSE].pack("NC") }
    answer.call("a frame of 15 MB", *ANYTHING) { |n| F.answer(F::CHUNK, n, "x" * 15_000_000) }
    [0, 99, 100, 101, 600, 999, 1000, 65_535].each do |status|
      answer.call("the status #{status}", *ANYTHING) { |n| F.response_head(n, status, 0, COUNTERS, "", 0) }
    end
    answer.call("a header with a line end", *ANYTHING) { |n| F.response_head(n, 200, 0, COUNTERS, "a\0b\r\nc: d\0", 0) }
    answer.call("a header without a name", *ANYTHING) { |n| F.response_head(n, 200, 0, COUNTERS, "\0b\0", 0) }
    answer.call("a header without a value", *ANYTHING) { |n| F.response_head(n, 200, 0, COUNTERS, "a\0", 0) }
    answer.call("headers that do not end", *ANYTHING) { |n| F.response_head(n, 200, 0, COUNTERS, "a", 0) }
    answer.call("headers longer than their frame", *ANYTHING) { |n| F.response_head(n, 200, 0, COUNTERS, "", 0).tap { |frame| frame[-4..] = "\xff" * 4 } }
    answer.call("100,000 headers", *ANYTHING) { |n| F.response_head(n, 200, 0, COUNTERS, "a\0b\0" * 100_000, 0) }
    answer.call("times before the beginning of time", *ANYTHING) { |n| F.response_head(n, 200, 0, F::Counters.new(2**32 - 1, 2**32 - 1, 2**32 - 1, 2**64 - 1, 0, ""), "", 0) }
    answer.call("times after the end of time", *ANYTHING) { |n| F.response_head(n, 200, 0, F::Counters.new(0, 0, 0, 0, 2**64 - 1, ""), "", 0) }
    answer.call("spans of nonsense", *ANYTHING) { |n| F.response_head(n, 200, 0, F::Counters.new(0, 0, 0, 0, 0, "x\0-1\0#{2**70}\0\xff"), "", 0) }
    answer.call("10,000 spans", *ANYTHING) { |n| F.response_head(n, 200, 0, F::Counters.new(0, 0, 0, 0, 0, "x\0#{2**64 - 1}\0#{2**64 - 1}\0" * 1500), "", 0) }
    answer.call("an error of 10 MB", *ANYTHING) { |n| F.error(n, 0, COUNTERS, F.pairs("class" => "X", "message" => "x" * 10_000_000)) }
    answer.call("an error of nothing", *ANYTHING) { |n| F.error(n, 0, COUNTERS, "") }
    answer.call("early hints that break the line", *ANYTHING) { |n| F.answer(F::EARLY_HINTS, n, "a\0b\r\nc\0") }
    answer.call("10,000 early hints", *ANYTHING) { |n| F.answer(F::EARLY_HINTS, n, "link\0<x>\0") * 10_000 }
  end

  group "frames on the control socket" do
    said = lambda do |name, type, payload = "", fd: false, times: 1|
      behaviour(name, 200, 502, :closed, kills: true) { times.times { control(type, payload, fd: fd ? $stdin : nil) } && ok }
    end
    said.call("ready once more", F::READY)
    said.call("a channel without a descriptor", F::CHANNEL, "1\0")
    said.call("a channel that is a file", F::CHANNEL, "1\0", fd: true)
    said.call("a channel of thread 0", F::CHANNEL, "0\0", fd: true)
    said.call("a channel of a thread far off", F::CHANNEL, "4294967295\0", fd: true)
    said.call("a channel of no number", F::CHANNEL, "x\0", fd: true)
    said.call("200 channels", F::CHANNEL, "1\0", fd: true, times: 200)
    behaviour("a channel of each of 500 threads", 200, 502, :closed, kills: true) do
      500.times do |number|
        ours, theirs = UNIXSocket.pair
        control(F::CHANNEL, "#{number}\0", fd: theirs)
        [ours, theirs].each(&:close)
      end
      ok
    end
    said.call("an output of no name", F::OUTPUT, "hostile\0", fd: true)
    said.call("200 outputs", F::OUTPUT, "stdout\0", fd: true, times: 200)
    said.call("a backtrace unasked", F::BACKTRACE, "1\0#{"x\n" * 1_000_000}\0")
    said.call("a backtrace of no thread", F::BACKTRACE, "99\0\0")
    said.call("a failure while it serves", F::WORKER_FAILED, "class\0Hostile\0message\0x\0")
    said.call("a failure of nonsense", F::WORKER_FAILED, "\xff")
    said.call("promoted unasked", F::PROMOTED, "", fd: true)
    said.call("unsafe unasked", F::UNSAFE, "x\0")
    said.call("memory of nonsense", F::MEMORY, "slots\0-1\0live\0#{2**70}\0pools\0::::\0")
    said.call("what a preloader says", F::EXITED, "1\0000\0")
    said.call("what the front says", F::DRAIN)
    said.call("a request for a thread", F::SPARE)
    said.call("a frame of an unknown type", 0xfe)
    behaviour("descriptors that belong to no frame", 200, 502, kills: true) do
      pair = UNIXSocket.pair
      500.times { worker.control.io.sendmsg(F.frame(F::MEMORY), 0, nil, Socket::AncillaryData.unix_rights(pair[0])) }
      ok
    end
    behaviour("half a frame", 200, 502, kills: true) { worker.control.io.write("\0\0\0\x09") && ok }
    behaviour("a frame of 4 GB", 200, 502, kills: true) { worker.control.io.write("\xff" * 5) && ok }
    behaviour("100,000 frames", 200, 502, kills: true) { worker.control.io.write(F.frame(F::MEMORY) * 100_000) && ok }
  end
end
