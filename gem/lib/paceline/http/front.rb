# frozen_string_literal: true

# Outbound calls through the server's front: HTTP/1.1 over its Unix socket, with absolute-form targets (docs/egress-protocol.md). Connections to it
# are kept as those to upstreams are. It decides nothing about the call: what the front can't do is made from this process.
require "socket"

module Paceline
  module HTTP
    module Front
      SOCKET = "tmp/paceline-egress.sock"
      # How long it is before a socket that was not there is looked for again (s). A worker's, which PACELINE_EGRESS names, is looked for each time.
      LOOKED = 1
      # For how long it is tried to connect to a front that many connect to (s).
      CROWDED = 1
      # How long it has to say whether a call may be made (s).
      ASKED = 5
      private_constant :SOCKET, :LOOKED, :CROWDED, :ASKED

      @looked = nil

      class << self
        # A connection to the front, or nil if there is none.
        def wire
          path = self.path or return
          HTTP.pool.take(path, true) || open(path)
        end

        # Asks whether this process may make a call to there by itself. Raises Denied if not; without a front it may.
        def permit(destination)
          wire = self.wire or return
          wire.lend(ASKED, ASKED, nil)
          wire.deadline = Deadline.current
          wire.begin
          wire.announce("Paceline-Egress: own\r\n", destination, nil)
          wire.write("GET #{destination.url} HTTP/1.1\r\nHost: #{destination.authority}\r\n\r\n")
          Net::HTTPResponse.read_new(wire)
        rescue Declined, EOFError, SystemCallError
          nil
        ensure
          wire&.close
        end

        # The path of the socket, or nil: PACELINE_EGRESS, or in the application's folder.
        def path
          given = ENV["PACELINE_EGRESS"]
          return (given unless given == "off" || given.empty?) if given

          @found = nil if defined?(@from) && @from != Dir.pwd
          @found ||= File.join(root, SOCKET)
        end

        private

        def root
          @from = Dir.pwd
          defined?(::Rails.root) && ::Rails.root ? ::Rails.root.to_s : @from
        end

        def open(path)
          return if @missing == path && HTTP.now - @looked < LOOKED

          owner = File.stat(path).uid
          # What another user listens on is not told our secrets.
          return missing(path) unless [Process.euid, 0].include?(owner) || Process.euid.zero?

          @missing = nil
          FrontWire.new(connect(path), path)
        rescue SystemCallError, ArgumentError # a path that is too long for a socket
          missing(path)
        end

        # Where too many want to connect at the same time the kernel says EAGAIN, which Ruby takes for a connection.
        def connect(path)
          limit = HTTP.now + CROWDED
          begin
            socket = UNIXSocket.new(path)
            socket.getpeername
            socket.extend(WithoutTCP)
          rescue Errno::ENOTCONN
            socket.close
            raise if HTTP.now > limit

            sleep(0.002)
            retry
          end
        end

        def missing(path)
          @missing = (path unless ENV["PACELINE_EGRESS"])
          @looked = HTTP.now
          nil
        end
      end
    end

    # What lies under a connection to the front. Libraries set TCP's options on what they take for a connection to the upstream; whose connections
    # those are, the front, has set its own.
    module WithoutTCP
      TCP = [Socket::IPPROTO_TCP, :TCP, :IPPROTO_TCP, "TCP", "IPPROTO_TCP"].freeze
      private_constant :TCP

      def setsockopt(option, *)
        TCP.include?(option.is_a?(Socket::Option) ? option.level : option) ? 0 : super
      end
    end

    class FrontWire < Wire
      FIELD = "paceline-egress"
      ERROR = "paceline-egress-error"
      private_constant :FIELD, :ERROR

      # A call begins. `line`: its field, to be sent behind the request line; `destination`: whom its failures are about; `open_timeout`: s or nil.
      def announce(line, destination, open_timeout)
        @line = (line unless line.empty?)
        @destination = destination
        @open_timeout = open_timeout
      end

      def write(*strings)
        if @line
          first = strings[0]
          stop = first.index("\n") + 1
          strings[0] = first.byteslice(0, stop) << @line << first.byteslice(stop..)
          @line = nil
        end
        super
      end

      # The response without what the front says of it; raises what stands in place of one. A refusal without a word of the front is that of its
      # parser, and not the upstream's.
      def judge(response)
        fields = response.instance_variable_get(:@header)
        if (failure = fields.delete(ERROR))
          raise Failures.of(failure[0], @destination)
        end

        report = fields.delete(FIELD)
        raise Odd, "the front refuses this request with #{response.code}" if report.nil? && response.code.start_with?("4")

        if report && (account = Account.current)
          account.reported(@destination, report[0])
        end
        @report = report && report[0]
        response
      end

      # Where the last call went to: "192.0.2.7:443", or nil.
      def address
        @report && @report[/address="([^"]*)"/, 1]
      end

      private

      # Until the first byte the front may have to open a connection, and it is the one to say that this takes too long.
      def patience
        return @read_timeout if received? || @read_timeout.nil? || @open_timeout.nil? || @read_timeout < @open_timeout

        [@read_timeout, @open_timeout + 1].max
      end
    end
  end
end
