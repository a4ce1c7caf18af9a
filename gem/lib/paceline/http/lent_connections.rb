# frozen_string_literal: true

# What is hooked in Net::HTTP, before the class itself. A Net::HTTP that rides gets its @socket lent (`connect`), gives it back when it is done
# (`do_finish`), and changes it between two requests for one that is surely alive (`begin_transport`); how requests are written, responses read,
# errors raised and repeated stays Net::HTTP's. One that does not ride is left alone, but counted and held to the deadline.
module Paceline
  module HTTP
    module LentConnections
      # What a connection that was closed by its other end while it waited looks like.
      STALE = [EOFError, Errno::ECONNRESET, Errno::ECONNABORTED, Errno::EPIPE, OpenSSL::SSL::SSLError].freeze
      IDEMPOTENT = %w[GET HEAD PUT DELETE OPTIONS TRACE].to_h { |name| [name, true] }.freeze
      # Net::HTTP's own, within which a started session uses its connection again (s). Any other was set by somebody who wants it.
      KEEP_ALIVE_TIMEOUT = 2
      private_constant :STALE, :IDEMPOTENT, :KEEP_ALIVE_TIMEOUT

      def request(req, body = nil, &block)
        return super if started? || !(@paceline_next = paceline_destination)

        # As Net::HTTP does it, but without `Connection: close`.
        @paceline_request = req
        start { return request(req, body, &block) }
      ensure
        @paceline_next = nil
      end

      # The certificate that the front has seen is not told by it: from here on the connection is of this process. While a response is being read
      # it is that of another connection to the same server.
      def peer_cert
        return super unless @socket.is_a?(FrontWire)
        return @paceline_at.peer_cert(@open_timeout, @read_timeout) if @socket.busy?

        paceline_leave_front
        super
      end

      def ipaddr
        paceline_leave_front if started?
        super
      end

      private

      # Where this goes to with a connection that can be lent; nil: it does not ride.
      def paceline_destination
        return unless paceline_rides?
        # Where connections are looked at as they are made, or made in a way of their own, nobody else's will do. (TLS to a proxy is net-http 0.5's.)
        return if @debug_output || @local_host || @local_port || @proxy_use_ssl || !OwnConnect.rubys?(self)

        Destination.of(self, @address, @port, @use_ssl, @ipaddr)
      end

      def paceline_rides?
        Hosts.ride?(@address)
      end

      def paceline_counts?
        true
      end

      def connect
        destination = @paceline_next || paceline_destination
        return paceline_by_itself { super } unless destination

        @paceline_next = nil
        req, @paceline_request = @paceline_request, nil
        fresh, @paceline_fresh = @paceline_fresh, nil
        timeout = Deadline.shrink(@open_timeout)
        within = @keep_alive_timeout unless @keep_alive_timeout == KEEP_ALIVE_TIMEOUT
        wire = (Front.wire if paceline_front?(destination, req)) ||
               destination.wire(repeatable: req.nil? || IDEMPOTENT[req.method], within: within, fresh: fresh, open_timeout: timeout, read_timeout: @read_timeout)
        @socket = wire.lend(@read_timeout, @write_timeout, @continue_timeout)
        @paceline_at = destination
        @last_communicated = nil
        on_connect
      end

      def paceline_by_itself
        timeout, began = @open_timeout, HTTP.now
        @open_timeout = Deadline.shrink(timeout)
        account = (Account.current if paceline_counts?)
        account&.connecting = true
        yield
        account&.connected(@address, use_ssl?, HTTP.now - began, own: true)
      ensure
        @open_timeout = timeout
        account&.connecting = false
      end

      # Whether this is for the front. What goes beyond its protocol is not.
      def paceline_front?(destination, req)
        return false if @paceline_left_front || @continue_timeout || destination.front_members.nil? || destination.declined?

        req.nil? || (req.path.start_with?("/") && req["upgrade"].nil? && req.method != "CONNECT" && (req.body_stream.nil? || req.body_stream.respond_to?(:rewind)))
      end

      def paceline_leave_front
        return unless @socket.is_a?(FrontWire)

        @paceline_left_front = true
        paceline_change
      end

      # Another connection in place of this one, which is the pool's from here on: if no other can be had it is not to be given back twice. A response
      # that is being read keeps the one that it comes from.
      def paceline_change
        wire, @socket = @socket, nil
        HTTP.pool.give(wire) unless wire.nil? || wire.busy?
        connect
      end

      def begin_transport(req)
        paceline_change if @socket.nil?
        unless @socket.is_a?(Wire)
          @paceline_wire = nil
          super
          @socket.read_timeout = Deadline.shrink(@read_timeout) if Deadline.current
          return
        end
        paceline_fit(req)
        paceline_trace(req)
        @last_communicated = nil
        wire = @paceline_wire = @socket
        wire.deadline = Deadline.current
        wire.begin(streamed: !req.body_stream.nil? || req.chunked?)
        if wire.is_a?(FrontWire)
          raise Odd, "a path with a fragment" if req.path.include?("#")

          wire.announce(paceline_line, @paceline_at, @open_timeout)
        end
        super
      end

      # The trace and the id of the request that the call is made for, if it has none of its own.
      def paceline_trace(req)
        context = (Context::Current if defined?(Context::Current))
        id = context&.request_id
        req["X-Request-Id"] = id if id && !req.key?("x-request-id")
        parent, state = context&.trace || Thread.current.thread_variable_get(:paceline_trace)
        return if parent.nil? || req.key?("traceparent")

        req["traceparent"] = parent
        req["tracestate"] = state if state
      end

      # Sees to it that the connection is good for this request.
      def paceline_fit(req)
        Deadline.shrink(nil)
        wire = @socket
        return if !wire.closed? && wire.clean? && paceline_fits?(wire, req)

        @paceline_request = req
        # After one that has failed none is tried that may fail, too.
        @paceline_fresh = wire.closed?
        paceline_change
      end

      # Whether this connection will do. One that has answered already is looked at as any that is taken.
      def paceline_fits?(wire, req)
        keep_alive = @paceline_at.keep_alive
        within = @keep_alive_timeout unless @keep_alive_timeout == KEEP_ALIVE_TIMEOUT
        if wire.is_a?(FrontWire) then paceline_front?(@paceline_at, req) && (@last_communicated.nil? || HTTP.pool.good?(wire, within))
        elsif !wire.used? || (@last_communicated.nil? && IDEMPOTENT[req.method]) then true
        else HTTP.pool.good?(wire, within, keep_alive) && (IDEMPOTENT[req.method] || paceline_once?(wire, keep_alive))
        end
      end

      # Whether a request that must not be sent twice may take a connection that was used before: Net::HTTP's own rule for those of a session.
      def paceline_once?(wire, keep_alive)
        keep_alive.trusts?(wire.idle) || (@last_communicated && wire.idle < @keep_alive_timeout && !keep_alive.distrusted?)
      end

      # The field Paceline-Egress, which says nothing that the front takes for granted.
      def paceline_line
        members = @paceline_at.front_members
        timeout = @open_timeout
        left = Deadline.current&.-(HTTP.now)
        exchange = Thread.current.thread_variable_get(:paceline_exchange)
        return @paceline_at.front_line if left.nil? && timeout == 60 && exchange.nil?

        words = []
        words << "open_timeout=#{format("%.3f", timeout)}" if timeout && timeout != 60
        # Net::HTTP's nil is for ever; the front's longest time is a day.
        words << "open_timeout=86400.0" if timeout.nil?
        words << "deadline=#{format("%.3f", left)}" if left
        words << "exchange=\"#{exchange.delete("^ !#-[]-~")}\"" if exchange
        words << members unless members.empty?
        "Paceline-Egress: #{words.join(", ")}\r\n"
      end

      def edit_path(path)
        @socket.is_a?(FrontWire) ? "#{@use_ssl ? "https" : "http"}://#{addr_port}#{path}" : super
      end

      def transport_request(req, &block)
        outer, @paceline_wire = @paceline_wire, nil
        account = (Account.current if paceline_counts?)
        block &&= paceline_reading(block)
        res = account ? account.call(@address) { paceline_transport(req) { super(req, &block) } } : paceline_transport(req) { super(req, &block) }
        complete = true
        res
      ensure
        # Whoever leaves by `break`, `throw`, Timeout or Thread#kill leaves half a response on it; and what a request within the block has
        # replaced belongs to nobody.
        wire, @paceline_wire = @paceline_wire, outer
        wire.close if wire.is_a?(Wire) && !wire.closed? && !(complete && wire.equal?(@socket))
      end

      # The block that is given a response, and what it means when it has left the body half-way.
      def paceline_reading(block)
        lambda do |res|
          wire = @paceline_wire
          block.call(res).tap { wire.leave(res) if wire.is_a?(Wire) && !res.instance_variable_get(:@read) }
        end
      end

      # Sends it once more where that is right: the front can't do it; or the connection was closed while it waited, or the front was stopped, no byte
      # of a response has come, and the request may be sent twice.
      def paceline_transport(req)
        repeated = odd = false
        begin
          yield
        rescue Unopened => e
          raise e.failure, cause: nil
        rescue Declined => e
          raise if @paceline_left_front

          # It is this request alone that the front does not understand.
          (odd = e.is_a?(Odd)) ? Front.permit(@paceline_at) : @paceline_at.declined
          @paceline_left_front = true
          paceline_rewind(req) or raise
          retry
        rescue *STALE
          wire = @paceline_wire
          raise if !wire.is_a?(Wire) || wire.received?

          @paceline_at.keep_alive.found_closed(wire.idle_before) if wire.used? && !wire.is_a?(FrontWire)
          raise if repeated || !(wire.used? || wire.is_a?(FrontWire)) || !IDEMPOTENT[req.method] || !paceline_rewind(req)

          repeated = true
          retry
        end
      ensure
        @paceline_left_front = nil if odd
      end

      def paceline_rewind(req)
        stream = req.body_stream or return true
        stream.respond_to?(:rewind) && stream.rewind
        stream.respond_to?(:rewind)
      end

      def end_transport(req, res)
        super
        @socket.rest(res) if @last_communicated && @socket.is_a?(Wire)
      end

      def do_finish
        wire = @socket
        return super unless wire.is_a?(Wire)

        @started = false
        @socket = nil
        HTTP.pool.give(wire)
      end
    end
  end
end
