# frozen_string_literal: true

# A REQUEST frame as a Rack env: the front's pairs and the constants that only Ruby can give. Decides nothing about
# the request; the front has.
require_relative "frames"
require_relative "input"

module Paceline
  class RequestEnv
    RACK_VERSION = [1, 6].freeze
    private_constant :RACK_VERSION

    def initialize(channel, rack3)
      @channel = channel
      @rack3 = rack3
      @multithread = channel.worker.multithread?
      @early_hints = ->(headers) { channel.early_hints(headers) }
      @hijack = -> { @env["rack.hijack_io"] = channel.hijack }
    end

    # The body that is still coming in over the channel, if it is.
    attr_reader :streamed

    # Why the app can't be called: its request's body can't be opened.
    attr_reader :problem

    # The env of the request in `frame`.
    def build(frame)
      flags, env, inline = Frames.parse_request(frame)
      @problem = @input = @streamed = nil
      env["rack.input"] = body(flags, env, inline)
      env["rack.errors"] = $stderr
      env["rack.after_reply"] = []
      env["rack.early_hints"] = @early_hints
      if @rack3
        env["rack.response_finished"] = []
      else
        env["rack.version"] = RACK_VERSION
        env["rack.multithread"] = @multithread
        env["rack.multiprocess"] = true
        env["rack.run_once"] = false
      end
      if env["paceline.hijack"] == "1"
        env["rack.hijack?"] = true
        env["rack.hijack"] = @hijack
      end
      @env = env
    end

    # After the response: nothing of this request's body may be taken for the next request.
    def finish
      @input&.finish unless @streamed && @channel.surrendered?
      @env = @input = @streamed = nil
    end

    private

    def body(flags, env, inline)
      case flags
      when Frames::INLINE then StringIO.new(inline)
      when Frames::SPOOLED then @input = SpooledInput.open(env["paceline.input"])
      when Frames::STREAMED
        @streamed = StreamedInput.new(@channel)
        @input = @rack3 ? @streamed : RewindableInput.new(@streamed)
      else raise ProtocolError, "REQUEST flags #{flags}"
      end
    rescue SystemCallError => e
      @problem = e
      nil
    end
  end
end
