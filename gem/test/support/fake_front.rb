# frozen_string_literal: true

# The front's part of the worker protocol, for tests: starts a preloader, forks workers, sends requests and reads
# frames. Knows nothing of HTTP.
require "socket"
require "timeout"
require "rbconfig"
require "paceline/server/frames"
require_relative "fake_mailbox"

class FakeFront
  F = Paceline::Server::Frames
  PRELOADER = File.expand_path("../../lib/paceline/server/preloader.rb", __dir__)
  LIMIT = 30

  # `number`: of the request that a frame on a channel answers; it is no part of `payload` here.
  Frame = Struct.new(:type, :payload, :fd, :number) do
    def self.of(type, payload, fd)
      return new(type, payload, fd) unless type.between?(F::RESPONSE, F::RAISED)
      new(type, payload.byteslice(F::NUMBER..), fd, payload.unpack1("Q>"))
    end

    def fields = F.parse_fields(payload)
    def pairs = F.parse_pairs(payload)
  end

  # A socket that frames are read from and written to.
  class Wire
    WITH_FD = [F::FORKED, F::CHANNEL, F::OUTPUT, F::PROMOTED, F::MAILBOX].freeze
    PLAIN = [F::OUTPUT, F::MAILBOX].freeze

    # `number`: of the last request that was sent here.
    attr_reader :io, :number

    def initialize(io)
      @io = io
    end

    def send(type, payload = "")
      @number = payload.unpack1("Q>") if type == F::REQUEST
      @io.write(F.frame(type, payload))
    end

    # The client of the last request has left.
    def cancel
      send(F::CANCEL, [@number].pack("Q>"))
    end

    def read
      Timeout.timeout(LIMIT) do
        head = @io.read(5) or return
        length, type = head.unpack("NC")
        payload = length.zero? ? "".b : @io.read(length)
        Frame.of(type, payload, WITH_FD.include?(type) ? receive_fd(type) : nil)
      end
    end

    # Reads until a frame of this type comes.
    def await(type)
      while (frame = read)
        return frame if frame.type == type
      end
      raise "no frame of type #{type} came"
    end

    def close
      @io.close unless @io.closed?
    end

    private

    def receive_fd(type)
      @io.recv_io(PLAIN.include?(type) ? IO : UNIXSocket)
    end
  end

  # Ruby's buffered reads would swallow the byte that carries an fd.
  class UnbufferedWire < Wire
    def read
      Timeout.timeout(LIMIT) do
        head = exactly(5) or return
        length, type = head.unpack("NC")
        payload = exactly(length)
        Frame.of(type, payload, WITH_FD.include?(type) ? receive_fd(type) : nil)
      end
    rescue Errno::ECONNRESET
      nil
    end

    private

    def exactly(size)
      out = "".b
      out << @io.readpartial(size - out.bytesize) while out.bytesize < size
      out
    rescue EOFError
      raise "half a frame" unless out.empty?
      nil
    end
  end

  class Worker
    attr_reader :control, :pid, :channels, :mailboxes, :outputs, :index

    def initialize(index, pid, socket)
      @index = index
      @pid = pid
      @control = UnbufferedWire.new(socket)
      @channels = {}
      @mailboxes = {}
      @outputs = {}
    end

    # Takes channels and output pipes until `type` comes.
    def await(type)
      loop do
        frame = @control.read or raise "worker control ended before a frame of type #{type}"
        case frame.type
        when F::CHANNEL then @channels[frame.fields[0].to_i] = UnbufferedWire.new(frame.fd)
        when F::MAILBOX then @mailboxes[frame.fields[0].to_i] = FakeMailbox.new(frame.fd)
        when F::OUTPUT then @outputs[frame.fields[0]] = frame.fd
        end
        return frame if frame.type == type
      end
    end

    def close
      @control.close
      @channels.each_value(&:close)
      @outputs.each_value(&:close)
      @mailboxes.each_value(&:close)
    end
  end

  attr_reader :control, :pid, :steps

  def initialize(root: nil, kind: "rack", env: {}, ruby: RbConfig.ruby, **settings)
    @workers = []
    @steps = []
    ours, theirs = UNIXSocket.pair
    @control = UnbufferedWire.new(ours)
    @pid = Process.spawn({ "PACELINE_CONTROL_FD" => theirs.fileno.to_s }.merge(env), ruby, PRELOADER, theirs => theirs,
                         err: settings.delete(:err) || :err, out: settings.delete(:out) || :out)
    theirs.close
    @control.send(F::START, F.pairs({
      "root" => root, "kind" => kind, "rackup" => "", "environment" => "test", "gemfile" => "",
      "puma_config" => "", "site" => "test", "preload" => "1"
    }.merge(settings.transform_keys(&:to_s))))
  end

  # LOADED or FAILED; the steps on the way are kept.
  def await_start
    loop do
      frame = @control.read or raise "the preloader is gone"
      return frame unless frame.type == F::STEP
      @steps << frame.fields
    end
  end

  def fork_worker(index: 1, threads: 1)
    @control.send(F::FORK, F.fields(index, threads))
    frame = @control.await(F::FORKED)
    worker = Worker.new(index, frame.fields[1].to_i, frame.fd)
    @workers << worker
    worker
  end

  def stop
    @control.close
    @workers.each(&:close)
    Timeout.timeout(LIMIT) { Process.wait(@pid) }
  rescue Errno::ECHILD
    nil
  end

  ENV_PAIRS = {
    "REQUEST_METHOD" => "GET", "SCRIPT_NAME" => "", "PATH_INFO" => "/", "QUERY_STRING" => "",
    "SERVER_NAME" => "example.org", "SERVER_PORT" => "80", "SERVER_PROTOCOL" => "HTTP/1.1",
    "REMOTE_ADDR" => "127.0.0.1", "rack.url_scheme" => "http", "HTTP_HOST" => "example.org",
    "paceline.hijack" => "1", "paceline.early_hints" => "1"
  }.freeze

  # The payload of a REQUEST, each with a number of its own.
  def self.request(env = {}, flags: F::INLINE, body: "", number: @number = (@number || 0) + 1)
    pairs = F.pairs(ENV_PAIRS.merge(env))
    [number, flags, pairs.bytesize].pack("Q>CN") << pairs << body.b
  end

  # What the frames of one response say: status, header pairs, body, flags, frame types, counters.
  Answer = Struct.new(:status, :headers, :body, :types, :flags, :counters, :error, :file, :raw, :hints, :chunks, :record, keyword_init: true) do
    def header(name) = headers.select { |pair| pair[0].casecmp?(name) }.map(&:last)
    def busy? = flags & F::BUSY != 0
  end

  COUNTERS = 30

  def self.answer(wire)
    got = Answer.new(types: [], headers: [], body: "".b, hints: [], chunks: [], flags: 0)
    loop do
      frame = wire.read or raise "the channel ended in a response, after #{got.types}"
      got.types << frame.type
      raise "a frame of type #{frame.type} for request #{frame.number} in the answer to #{wire.number}" unless frame.number == wire.number
      case frame.type
      when F::EARLY_HINTS then got.hints << frame.pairs
      when F::HEAD
        got.status, head_flags = frame.payload.unpack("nC")
        got.headers = F.parse_fields(frame.payload.byteslice(3..)).each_slice(2).to_a
        got.raw = head_flags & F::RAW != 0
        return got if got.raw
      when F::CHUNK
        got.chunks << frame.payload
        got.body << frame.payload
      when F::FILE then got.file = frame.payload
      when F::RECORD then got.record = frame.payload
      when F::RAISED then got.error = frame.pairs
      when F::RESPONSE
        got.status, got.flags = frame.payload.unpack("nC")
        got.counters, rest = counters(frame.payload.byteslice(3..))
        size = rest.unpack1("N")
        got.headers = F.parse_fields(rest.byteslice(4, size)).each_slice(2).to_a
        got.body = rest.byteslice(4 + size, rest.bytesize)
        break
      when F::END_, F::ABORT
        got.flags = frame.payload.getbyte(0)
        got.counters, = counters(frame.payload.byteslice(1..))
        break
      when F::ERROR
        got.flags = frame.payload.getbyte(0)
        got.counters, rest = counters(frame.payload.byteslice(1..))
        got.error = F.parse_pairs(rest)
        break
      when F::HIJACK then return got
      else raise "frame of type #{frame.type} in a response"
      end
    end
    if got.busy?
      frame = wire.read
      raise "IDLE wanted, #{frame.inspect} came" unless frame&.type == F::IDLE && frame.number == wire.number
      got.types << F::IDLE
    end
    got
  end

  def self.counters(bytes)
    values = bytes.unpack("NNNQ>Q>n")
    spans = F.parse_fields(bytes.byteslice(COUNTERS, values[5])).each_slice(3).to_a
    [F::Counters.new(*values[0, 5], spans), bytes.byteslice(COUNTERS + values[5], bytes.bytesize)]
  end
end
