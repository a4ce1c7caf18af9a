# frozen_string_literal: true

# The stand-in for all servers that a shadow calls: a program, started by stand_in.rb. It answers requests with recordings, each at its moment, and
# speaks TLS with certificates of a throwaway authority. It connects to nobody, knows nothing but what the shadow tells it, and ends with it.
#
# Descriptor 0: the control socket (see StandInFrames). Descriptor 3: where it listens. Argument: the shadow's pid.
require "socket"
require_relative "punctual_sleep"
require_relative "stand_in_frames"

module Paceline
  class StandInProcess
    include StandInFrames

    PIECE = 16 * 1024
    private_constant :PIECE

    # `bytes` of a response, of which so many come `first`; `closes`: the connection ends with it.
    Recording = Struct.new(:bytes, :first, :closes)
    # `moment`: of the first byte, in monotonic microseconds; `rest`: microseconds from there to the last.
    Answer = Struct.new(:recording, :moment, :rest)
    private_constant :Recording, :Answer

    def initialize(control, listener)
      @control = control
      @listener = listener
      @mutex = Mutex.new
      @sleep = PunctualSleep.new
      @recordings = {}
      # {id of a connection => what its next requests are answered with}
      @answers = Hash.new { |answers, id| answers[id] = Queue.new }
      @connections = @handshakes = @answered = @waiting = @at_once = 0
    end

    # Until the shadow has ended.
    def run
      @secret = @control.read(SECRET_SIZE)
      Thread.new { loop { introduce(@listener.accept) } }
      while (header = @control.read(FRAME_SIZE))
        kind, id, number, moment, rest, size = header.unpack(FRAME)
        bytes = @control.read(size)
        case kind
        when RECORDING then @recordings[number] = Recording.new(bytes, rest, id == 1)
        when ANSWER then answers(id) << Answer.new(@recordings.fetch(number), moment, rest)
        when AUTHORITY then reply(authority.certificate.to_der)
        when REPORT then reply(@mutex.synchronize { [@connections, @handshakes, @answered, @at_once] }.pack(COUNTS))
        end
      end
    end

    private

    def reply(bytes)
      @control.write([bytes.bytesize].pack(REPLY), bytes)
    end

    def answers(id)
      @mutex.synchronize { @answers[id] }
    end

    def authority
      @mutex.synchronize do
        @authority ||= begin
          require "openssl"
          require_relative "stand_in_authority"
          StandInAuthority.new
        end
      end
    end

    def introduce(socket)
      @mutex.synchronize { @connections += 1 }
      Thread.new do
        socket.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
        # Nothing is read ahead that is OpenSSL's.
        secret, *told = exactly(socket, INTRODUCTION_SIZE).unpack(INTRODUCTION)
        raise EOFError, "somebody else's connection" unless secret == @secret

        id, kind, size = told
        host = exactly(socket, size)
        open_tunnel(socket) if kind & TUNNEL == TUNNEL
        serve(kind & TLS == TLS ? secured(socket, host) : socket, answers(id))
      rescue SystemCallError, IOError
        nil # the shadow has closed it
      ensure
        socket.close
        @mutex.synchronize { @answers.delete(id) }
      end
    end

    def exactly(socket, size)
      bytes = +""
      bytes << socket.readpartial(size - bytes.bytesize) while bytes.bytesize < size
      bytes
    end

    # The client sends nothing more before it has the answer.
    def open_tunnel(socket)
      head = +""
      head << socket.readpartial(PIECE) until head.end_with?("\r\n\r\n")
      socket.write("HTTP/1.1 200 Connection established\r\n\r\n")
    end

    def secured(socket, host)
      context = authority.context(host)
      secured = OpenSSL::SSL::SSLSocket.new(socket, context)
      secured.sync_close = true
      begin
        secured.accept
      rescue OpenSSL::SSL::SSLError => e
        raise EOFError, e.message # the shadow does not want it
      end
      @mutex.synchronize { @handshakes += 1 }
      secured
    end

    def serve(io, answers)
      buffer = String.new(encoding: Encoding::BINARY)
      while (closes = read_request(io, buffer)) != :end
        answer = answers.pop
        waiting(answer.moment)
        recording = answer.recording
        io.write(recording.bytes.byteslice(0, recording.first))
        if recording.bytes.bytesize > recording.first
          @sleep.until(answer.moment + answer.rest)
          io.write(recording.bytes.byteslice(recording.first..))
        end
        break if closes || recording.closes
      end
    ensure
      io.close
    end

    def waiting(moment)
      @mutex.synchronize do
        @waiting += 1
        @answered += 1
        @at_once = @waiting if @waiting > @at_once
      end
      @sleep.until(moment)
    ensure
      @mutex.synchronize { @waiting -= 1 }
    end

    # Takes a request out of the buffer. Returns whether it is the last one of the connection, or :end: there was none.
    def read_request(io, buffer)
      buffer << io.readpartial(PIECE) until (stop = buffer.index("\r\n\r\n"))
      head = buffer.slice!(0, stop + 4)
      length = head[/^content-length: *(\d+)/i, 1].to_i
      buffer << io.readpartial(PIECE) while buffer.bytesize < length
      buffer.slice!(0, length)
      head.match?(/^connection:[^\r]*\bclose\b/i)
    rescue EOFError
      :end
    end
  end
end

if $PROGRAM_NAME == __FILE__
  shadow = Integer(ARGV[0])
  # Another process may have inherited the shadow's end of the control socket.
  Thread.new do
    sleep(2) while Process.ppid == shadow
    exit!(0)
  end
  begin
    Paceline::StandInProcess.new(UNIXSocket.for_fd(0), TCPServer.for_fd(3)).run
  rescue SystemCallError
    nil # the shadow has ended
  ensure
    exit!(0)
  end
end
