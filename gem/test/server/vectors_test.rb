# frozen_string_literal: true

require "helper"

# The golden vectors that the front reads too: every frame decodes to its meaning, and what Ruby sends encodes to it.
class VectorsTest < Paceline::Test
  FOLDER = File.expand_path("../../../test/vectors", __dir__)

  class Vector
    def initialize(path)
      @lines = File.readlines(path, chomp: true).map { |line| line.match(/\A(\w+): (.*)\z/).captures }
    end

    def all(key) = @lines.select { |line| line[0] == key }.map { |line| unescape(line[1]) }
    def one(key) = all(key).first
    def type = one("type")
    def number = Paceline::Server::Frames.const_get(type == "END" ? "END_" : type)
    def frame = [one("hex")].pack("H*")
    def payload = frame.byteslice(5..)
    def flags = Integer(one("flags"))
    def request = Integer(one("number"))
    def status = Integer(one("status"))

    def counters
      values = %w[chunks gc allocated started finished].map { |key| Integer(one(key)) }
      Paceline::Server::Frames::Counters.new(*values, Paceline::Server::Frames.fields(*all("span")))
    end

    private

    def unescape(text)
      text.b.gsub(/\\(?:x(\h\h)|\\)/n) { $1 ? $1.hex.chr.b : "\\" }
    end
  end

  VECTORS = Dir[File.join(FOLDER, "*.txt")].to_h { |path| [File.basename(path, ".txt"), Vector.new(path)] }

  def test_every_frame_type_has_a_vector
    named = VECTORS.values.map(&:number).uniq.sort
    known = %i[START FORK RELEASE SHADOW STEP LOADED FAILED FORKED EXITED DRAIN ASK_BACKTRACE MOLD CHANNEL OUTPUT READY BACKTRACE WORKER_FAILED
               PROMOTED UNSAFE ASK_MEMORY MEMORY SPARE
               MAILBOX REQUEST BODY BODY_END CANCEL WAKE NOTICE RESPONSE HEAD CHUNK FILE END_ EARLY_HINTS HIJACK ABORT IDLE ERROR RECORD ASIDE RAISED
               CONFIGURE ENVIRONMENT BOOTED STOPPED CONFIGURED]
    assert_equal known.map { |name| F.const_get(name) }.sort, named
  end

  VECTORS.each do |name, vector|
    define_method("test_#{name}") do
      assert_equal [vector.payload.bytesize, vector.number], vector.frame.unpack("NC")
      assert_equal vector.frame, encode(vector)
      decode(vector)
    end
  end

  private

  def encode(vector)
    case vector.type
    when "REQUEST"
      env = F.fields(*vector.all("pair"))
      F.frame(F::REQUEST, [vector.request, vector.flags, env.bytesize].pack("Q>CN") << env << vector.one("body").to_s)
    when "RESPONSE"
      headers = F.fields(*vector.all("pair"))
      body = vector.one("body")
      F.response_head(vector.request, vector.status, vector.flags, vector.counters, headers, body.bytesize) + body
    when "HEAD" then F.head(vector.request, vector.status, vector.flags, F.fields(*vector.all("pair")))
    when "END", "ABORT" then F.ending(vector.number, vector.request, vector.flags, vector.counters)
    when "ERROR" then F.error(vector.request, vector.flags, vector.counters, F.fields(*vector.all("pair")))
    when "CANCEL" then F.frame(vector.number, [vector.request].pack("Q>"))
    when "BODY_END" then F.frame(vector.number, vector.flags.chr)
    when "BODY" then F.frame(vector.number, vector.one("body"))
    when "CHUNK" then F.chunk_head(vector.request, vector.one("body").bytesize) + vector.one("body")
    when "FILE", "RECORD" then F.answer(vector.number, vector.request, vector.one("body"))
    when "EARLY_HINTS", "HIJACK", "IDLE", "ASIDE", "RAISED" then F.answer(vector.number, vector.request, F.fields(*vector.all("pair")))
    else F.frame(vector.number, F.fields(*vector.all("field"), *vector.all("pair")))
    end
  end

  def decode(vector)
    if vector.type == "REQUEST"
      flags, env, inline = F.parse_request(vector.frame)
      assert_equal vector.flags, flags
      assert_equal vector.request, F.request_number(vector.frame)
      assert_equal vector.all("pair").each_slice(2).to_h, env
      vector.one("body").nil? ? assert_nil(inline) : assert_equal(vector.one("body"), inline)
    elsif vector.type == "CANCEL"
      assert_equal vector.request, F.cancelled_number(vector.frame)
    elsif vector.all("field").any?
      assert_equal vector.all("field"), F.parse_fields(vector.payload)
    elsif %w[START LOADED FAILED WORKER_FAILED EARLY_HINTS RAISED MEMORY].include?(vector.type)
      payload = %w[EARLY_HINTS RAISED].include?(vector.type) ? vector.payload.byteslice(F::NUMBER..) : vector.payload
      assert_equal vector.all("pair").each_slice(2).to_h, F.parse_pairs(payload)
    end
  end
end
