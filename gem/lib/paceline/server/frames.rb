# frozen_string_literal: true

# The worker protocol's bytes: frame types, and how frames, fields and pairs are written and read
# (docs/worker-protocol.md). Works on strings only; never touches a socket.
require_relative "protocol_error"

module Paceline
  module Server
    module Frames
      # Preloader control.
      START = 0x01
      FORK = 0x02
      RELEASE = 0x03
      SHADOW = 0x04
      CONFIGURE = 0x05
      ENVIRONMENT = 0x06
      BOOTED = 0x07
      STOPPED = 0x08
      STEP = 0x41
      LOADED = 0x42
      FAILED = 0x43
      FORKED = 0x44
      EXITED = 0x45
      CONFIGURED = 0x46

      # Worker control.
      DRAIN = 0x11
      ASK_BACKTRACE = 0x12
      MOLD = 0x13
      ASK_MEMORY = 0x14
      SPARE = 0x15
      CHANNEL = 0x51
      OUTPUT = 0x52
      READY = 0x53
      BACKTRACE = 0x54
      WORKER_FAILED = 0x55
      PROMOTED = 0x56
      UNSAFE = 0x57
      MEMORY = 0x58
      MAILBOX = 0x59

      # Channel, front to worker.
      REQUEST = 0x21
      BODY = 0x22
      BODY_END = 0x23
      CANCEL = 0x24
      WAKE = 0x25

      # Channel, worker to front.
      RESPONSE = 0x31
      HEAD = 0x32
      CHUNK = 0x33
      FILE = 0x34
      END_ = 0x35
      EARLY_HINTS = 0x36
      HIJACK = 0x37
      ABORT = 0x38
      IDLE = 0x39
      ERROR = 0x3A
      NOTICE = 0x3B
      RECORD = 0x3C
      ASIDE = 0x3D
      RAISED = 0x3E

      # Flags of REQUEST.
      INLINE = 1
      SPOOLED = 2
      STREAMED = 4

      # Flags of RESPONSE, HEAD, END, ABORT and ERROR.
      BUSY = 1
      RAW = 2
      FILE_FOLLOWS = 4
      STREAM = 8

      # Bytes of a REQUEST frame before its env: length, type, number, flags, length of the env.
      REQUEST_HEAD = 18

      # Bytes of a request's number, with which the payload of each frame of its answer begins.
      NUMBER = 8

      MAX_PAYLOAD = 16 * 1024 * 1024
      MAX_RESPONSE = 1024 * 1024
      MAX_CHUNK = 64 * 1024

      # chunks, gc microseconds, allocated objects, app started, app finished, spans.
      Counters = Struct.new(:chunks, :gc, :allocated, :started, :finished, :spans)

      TEMPLATES = [] # of `unpack`, by the number of fields
      private_constant :TEMPLATES

      module_function

      def frame(type, payload = "")
        [payload.bytesize, type, payload].pack("NCa*")
      end

      # Byte strings, each terminated by NUL. A NUL inside a value can't be carried and is dropped.
      def fields(*values)
        values.each_with_object(String.new(encoding: Encoding::BINARY)) do |value, out|
          text = value.to_s.b
          text.delete!("\0")
          out << text << "\0"
        end
      end

      def pairs(hash)
        fields(*hash.flat_map { |name, value| [name, value] })
      end

      def parse_fields(payload)
        return [] if payload.empty?
        list = payload.split("\0", -1)
        raise ProtocolError, "fields do not end with NUL" unless list.pop == ""
        list
      end

      def parse_pairs(payload)
        list = parse_fields(payload)
        raise ProtocolError, "pairs with an odd number of fields" if list.size.odd?
        list.size > 4096 ? list.each_slice(2).to_h : Hash[*list]
      end

      # flags, env (pairs) and inline body of a whole REQUEST frame (length and type included).
      def parse_request(frame)
        size = frame.bytesize
        raise ProtocolError, "REQUEST of #{size} bytes" if size < REQUEST_HEAD
        flags, length = request_head(frame)
        raise ProtocolError, "REQUEST env of #{length} bytes in a frame of #{size}" if length > size - REQUEST_HEAD
        env = parse_env(frame.byteslice(REQUEST_HEAD, length))
        [flags, env, flags == INLINE ? inline_body(frame, length) : nil]
      end

      # The flags of a whole REQUEST frame, and the bytes of its env.
      def request_head(frame)
        frame.unpack("@13CN")
      end

      # What follows an env of `length` bytes.
      def inline_body(frame, length)
        frame.byteslice(REQUEST_HEAD + length, frame.bytesize)
      end

      # The number of the request in a whole REQUEST frame.
      def request_number(frame)
        frame.unpack1("@5Q>") || raise(ProtocolError, "REQUEST of #{frame.bytesize} bytes")
      end

      # The number of the request that a whole CANCEL frame means.
      def cancelled_number(frame)
        frame.unpack1("@5Q>")
      end

      # As parse_pairs, and faster: for each request.
      def parse_env(pairs)
        count = pairs.count("\0")
        return parse_pairs(pairs) if count > 512 || count.odd? || count.zero? || pairs.getbyte(-1) != 0
        Hash[*pairs.unpack(TEMPLATES[count] ||= "Z*" * count)]
      end

      def counters(counted)
        spans = counted.spans
        [counted.chunks, counted.gc, counted.allocated, counted.started, counted.finished,
         spans.bytesize, spans].pack("NNNQ>Q>na*")
      end

      # A frame of the answer to request `number`.
      def answer(type, number, payload = "")
        [NUMBER + payload.bytesize, type, number, payload].pack("NCQ>a*")
      end

      # A whole response but for its body's bytes, which follow this string.
      def response_head(number, status, flags, counted, headers, body_size)
        spans = counted.spans
        [NUMBER + 37 + spans.bytesize + headers.bytesize + body_size, RESPONSE, number, status, flags,
         counted.chunks, counted.gc, counted.allocated, counted.started, counted.finished,
         spans.bytesize, spans, headers.bytesize, headers].pack("NCQ>nCNNNQ>Q>na*Na*")
      end

      def head(number, status, flags, headers)
        [NUMBER + 3 + headers.bytesize, HEAD, number, status, flags, headers].pack("NCQ>nCa*")
      end

      # What stands before the SIZE bytes of a CHUNK.
      def chunk_head(number, size)
        [NUMBER + size, CHUNK, number].pack("NCQ>")
      end

      # Yields the size and the bytes of each CHUNK that BYTES take.
      def each_chunk(bytes)
        return yield(bytes.bytesize, bytes) if bytes.bytesize.between?(1, MAX_CHUNK)
        at = 0
        while at < bytes.bytesize
          slice = bytes.byteslice(at, MAX_CHUNK)
          yield slice.bytesize, slice
          at += MAX_CHUNK
        end
      end

      def ending(type, number, flags, counted)
        answer(type, number, [flags].pack("C") << counters(counted))
      end

      def error(number, flags, counted, pairs)
        answer(ERROR, number, [flags].pack("C") << counters(counted) << pairs)
      end
    end
  end
end
