# frozen_string_literal: true

# Where a call of Net::HTTP goes to, and what its connection has to be like. Calls with equal destinations share connections. It reads what a
# Net::HTTP was told and changes nothing of it.
module Paceline
  module HTTP
    class Destination
      MOST = 1024
      private_constant :MOST

      @mutex = Thread::Mutex.new
      @all = {}

      class << self
        # Nil: a connection like that can't be shared, and Net::HTTP makes it by itself.
        def of(http, address, port, tls, ipaddr)
          trust = nil
          return if tls && !(trust = Trust.of(http))

          proxy = http.proxy? ? [http.proxy_address, http.proxy_port, http.proxy_user, http.proxy_pass] : nil
          key = [address, port, ipaddr, proxy, trust&.key]
          @all[key] || @mutex.synchronize do
            @all = {} if @all.size >= MOST
            @all[key] ||= new(key, address, port, ipaddr, proxy, trust)
          end
        end
      end

      # Equal for equal destinations.
      attr_reader :key
      # `proxy`: [address, port, user, password] or nil; `trust`: a Trust, or nil without TLS.
      attr_reader :address, :port, :ipaddr, :proxy, :trust
      # What is known of how long its server keeps connections.
      attr_reader :keep_alive

      def initialize(key, address, port, ipaddr, proxy, trust)
        @key = key.freeze
        @address, @port, @ipaddr, @proxy, @trust = address, port, ipaddr, proxy, trust
        @keep_alive = KeepAlive.new
      end

      def tls?
        !@trust.nil?
      end

      # A connection from this process. `repeatable`: the request may be sent twice; `fresh`: one that nobody has used. Raises as Net::HTTP#connect does. Times in s or nil.
      def wire(repeatable: true, within: nil, fresh: false, open_timeout: 60, read_timeout: 60)
        (HTTP.pool.take(@key, repeatable, within, @keep_alive) unless fresh) || open(open_timeout, read_timeout)
      end

      # The certificate of the server, as a connection from this process sees it; nil without TLS.
      def peer_cert(open_timeout, read_timeout)
        return unless tls?

        wire = wire(open_timeout: open_timeout, read_timeout: read_timeout)
        wire.io.peer_cert
      ensure
        HTTP.pool.give(wire) if wire
      end

      # What the front is told of this destination in the field Paceline-Egress; nil: it can't be asked.
      def front_members
        return @front_members if defined?(@front_members)

        @front_members = FrontMembers.of(self)
      end

      # The whole field, or "": there is nothing to say.
      def front_line
        @front_line ||= front_members.empty? ? "" : "Paceline-Egress: #{front_members}\r\n"
      end

      # "https://api.example:8443/".
      def url
        "http#{"s" if tls?}://#{authority}/"
      end

      # "api.example:8443".
      def authority
        "#{@address.include?(":") ? "[#{@address}]" : @address}:#{@port}"
      end

      # The front has said that it can't do this.
      def declined
        @declined = HTTP.now
      end

      def declined?
        @declined && HTTP.now - @declined < 60
      end

      private

      def open(open_timeout, read_timeout)
        began = HTTP.now
        opening = -> { Opener.for(self, open_timeout, read_timeout).open }
        socket = (together = Together.current) ? together.aside(&opening) : opening.call
        Account.current&.connected(@address, tls?, HTTP.now - began)
        Wire.new(socket, @key)
      end
    end

    # Net::HTTP with nothing but its way of connecting.
    class Opener < Stock
      def self.for(destination, open_timeout, read_timeout)
        proxy = destination.proxy
        opener = new(proxy ? proxy[0] : destination.ipaddr || destination.address, proxy ? proxy[1] : destination.port, nil)
        opener.open_timeout = open_timeout
        opener.read_timeout = read_timeout
        opener.destination = destination
        opener
      end

      attr_writer :destination

      # A connected socket, behind its proxy, with TLS if it is to have it.
      def open
        connect
        socket = @socket.io
        return socket unless @destination.tls?

        through_proxy if @destination.proxy
        @destination.trust.secure(socket, @destination.address, @destination.key) { |secured| ssl_socket_connect(secured, @open_timeout) }
      rescue StandardError
        socket&.close
        raise
      end

      private

      def paceline_destination
        nil
      end

      def paceline_counts?
        false
      end

      def through_proxy
        _, _, user, password = @destination.proxy
        host = "#{@destination.ipaddr || @destination.address}:#{@destination.port}"
        authorization = "Proxy-Authorization: Basic #{["#{user}:#{password}"].pack("m0")}\r\n" if user
        @socket.write("CONNECT #{host} HTTP/#{Net::HTTP::HTTPVersion}\r\nHost: #{@destination.address}:#{@destination.port}\r\n#{authorization}\r\n")
        Net::HTTPResponse.read_new(@socket).value
      end
    end
  end
end
