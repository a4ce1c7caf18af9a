# frozen_string_literal: true

# A REQUEST frame as a Rack env: the front's pairs and the constants that only Ruby can give. Decides nothing about
# the request; the front has.
require_relative "../version"
require_relative "frames"
require_relative "rewindable_input"
require_relative "signed_in"
require_relative "spooled_input"
require_relative "streamed_input"

module Paceline
  module Server
    class RequestEnv
      RACK_VERSION = [1, 6].freeze
      SOFTWARE = "paceline/#{VERSION}".b.freeze
      GATEWAY = "CGI/1.1".b.freeze
      private_constant :RACK_VERSION, :SOFTWARE, :GATEWAY

      def initialize(channel, rack3)
        @channel = channel
        @rack3 = rack3
        @remote_address = channel.worker.hooks&.remote_address
        @scheme = channel.worker.hooks&.rack_url_scheme
        @constants = constants
        @defaults = @constants.flatten.freeze
      end

      # The body that is still coming in over the channel, if it is.
      attr_reader :streamed

      # Why the app can't be called: its request's body can't be opened.
      attr_reader :problem

      # The env of the request in `frame`.
      def build(frame)
        @problem = @input = @streamed = nil
        env = Native&.env(frame, @defaults)
        if env
          flags, length = Frames.request_head(frame)
          inline = Frames.inline_body(frame, length) if flags == Frames::INLINE
        else
          flags, env, inline = Frames.parse_request(frame)
          env.update(@constants)
        end
        env["rack.input"] = body(flags, env, inline)
        offer_hijack(env) if env["paceline.hijack"] == "1"
        offer_hints(env) if env["paceline.early_hints"] == "1"
        @remote_address&.apply(env)
        claim_scheme(env) if @scheme
        env["paceline.user"] = SignedIn.parse(env["paceline.user"]) if env.key?("paceline.user")
        env["rack.after_reply"] = []
        env["rack.response_finished"] = [] if @rack3
        env
      end

      # After the response: nothing of this request's body may be taken for the next request.
      def finish
        @input&.finish unless @streamed && @channel.surrendered?
        @input = @streamed = nil
      end

      private

      # An app may keep an env, and what is in it: each of these works for its own request alone.
      def offer_hijack(env)
        number = @channel.request
        env["rack.hijack?"] = true
        env["rack.hijack"] = -> { env["rack.hijack_io"] = @channel.hijack(number) }
      end

      def offer_hints(env)
        number = @channel.request
        env["rack.early_hints"] = ->(headers) { @channel.early_hints(number, headers) }
      end

      # What every request of this thread has.
      def constants
        always = { "rack.errors" => $stderr, "SERVER_SOFTWARE" => SOFTWARE, "GATEWAY_INTERFACE" => GATEWAY }
        always["puma.mark_as_io_bound"] = @channel.worker.io_bound if @channel.worker.io_bound
        return always if @rack3
        always.merge("rack.version" => RACK_VERSION, "rack.multithread" => @channel.worker.multithread?,
                     "rack.multiprocess" => true, "rack.run_once" => false)
      end

      # `rack_url_scheme` of config/puma.rb: who terminates TLS does not say so. A proxy that is trusted and does wins.
      def claim_scheme(env)
        return if env.key?("HTTP_X_FORWARDED_PROTO")
        env["rack.url_scheme"] = @scheme.to_s
        @scheme.to_s == "https" ? env["HTTPS"] = "on" : env.delete("HTTPS")
      end

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
end
