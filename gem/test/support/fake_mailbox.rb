# frozen_string_literal: true

# The front's side of a mailbox, for tests: through reads and writes of its memory's descriptor.
class FakeMailbox
  HEAD = 4096
  REQUESTS = 64 * 1024
  ANSWERS = 256 * 1024
  ENTRY = 16
  QUEUED = 1
  CLAIMED = 2
  REVOKED = 3
  WORDS = { requests_written: 64, requests_taken: 128, sleeps: 192, answers_written: 256, answers_taken: 320, front_waits: 384 }.freeze

  def initialize(io)
    @io = io
  end

  def close = @io.close

  WORDS.each do |name, at|
    define_method(name) { @io.pread(8, at).unpack1("Q") }
    define_method(:"#{name}=") { |value| @io.pwrite([value].pack("Q"), at) }
  end

  # Posts a whole REQUEST frame; answers where.
  def post(number, frame)
    written = requests_written
    rest = REQUESTS - (written % REQUESTS)
    if entry(frame.bytesize) > rest
      @io.pwrite([0].pack("Q"), HEAD + (written % REQUESTS))
      written += rest
    end
    at = HEAD + (written % REQUESTS)
    @io.pwrite([(number << 2) | QUEUED, frame.bytesize, 0].pack("QLL") << frame, at)
    self.requests_written = written + entry(frame.bytesize)
    at
  end

  def state(at) = @io.pread(8, at).unpack1("Q") & 3

  def revoke(at)
    @io.pwrite([(@io.pread(8, at).unpack1("Q") & ~3) | REVOKED].pack("Q"), at)
  end

  # The next answer: a whole frame; nil if there is none.
  def take
    taken = answers_taken
    return if taken == answers_written
    length = @io.pread(4, HEAD + REQUESTS + (taken % ANSWERS) + 8).unpack1("L")
    if length == 0xffff_ffff
      self.answers_taken = taken + ANSWERS - (taken % ANSWERS)
      return take
    end
    frame = @io.pread(length, HEAD + REQUESTS + (taken % ANSWERS) + ENTRY)
    self.answers_taken = taken + entry(length)
    frame
  end

  private

  def entry(length) = (ENTRY + length + ENTRY - 1) / ENTRY * ENTRY
end
