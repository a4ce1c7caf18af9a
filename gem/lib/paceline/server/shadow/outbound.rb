# frozen_string_literal: true

# The outbound HTTP calls of a shadow. In mode :record they are really made, and their responses and times are kept. In mode :replay a stand-in
# process answers them: the same bytes after the same times. This covers what ends at Net::HTTP, with and without Paceline::HTTP; other clients
# are refused by guards (guards/sockets.rb, guards/curl.rb). It never sends anything but GET and HEAD.
require "socket.so"
require_relative "current_request"
require_relative "outbound/punctual_sleep"
require_relative "outbound/recordings"
require_relative "outbound/recorder"
require_relative "outbound/connection"
require_relative "outbound/timeline"
require_relative "outbound/stand_in"
require_relative "outbound/authority"
require_relative "outbound/hooks"

module Paceline
  module Server
    module Shadow
      module Outbound
        # A call that a shadow does not make.
        class Refused < Errno::ECONNREFUSED; end

        # A request under way. `key`: see Recordings.key; `keep_open`: Net::HTTP asks for the connection to be closed, and the application does not;
        # `recording`: its answer in mode :replay; `attempt`: in mode :record.
        Exchange = Struct.new(:key, :keep_open, :recording, :attempt)
        # Those of a request (its name): how many recordings of each key were given, and the Timeline of their times.
        Calls = Struct.new(:name, :given, :timeline)
        SAFE = %w[GET HEAD].freeze
        private_constant :Exchange, :Calls, :SAFE

        class << self
          # :record or :replay.
          attr_reader :mode
          # For the next request that `mode=` begins: a String that names it, so that it is given its own recordings. Without one the recordings of all
          # requests are given.
          attr_writer :request

          # Once in a shadow, before its first request. `shadow` has `note_write(kind:, what:)`. Starts in mode :replay.
          def install(shadow)
            close
            @connections&.close_all
            @shadow = shadow
            @mutex = Thread::Mutex.new
            @recordings = Recordings.new
            @recorder = Recorder.new(@recordings) { |what| note(what) }
            @connections = Connections.new
            @sleep = PunctualSleep.new
            @parallel = false
            @mode = @request = @noted = nil
            # The front's connections are not the shadow's.
            ENV["PACELINE_EGRESS"] = "off"
            self.mode = :replay
            Hooks.install
          end

          # Begins a request in this mode: each list of recordings is given from its start, and `counts` are 0. Connections of the other mode are closed.
          def mode=(mode)
            raise ArgumentError, "#{mode.inspect} is neither :record nor :replay" unless %i[record replay].include?(mode)

            @connections.close_all unless mode == @mode
            Authority.install if Authority.loaded?
            @mode = mode
            name, @request = @request, nil
            begin_calls(name)
            @recorder.begin(name) if mode == :record
          end

          # Begins a request of this name in mode :replay, which stays, beside those that other threads have in hand.
          def replay(name)
            Authority.install if Authority.loaded?
            begin_calls(name)
          end

          # What-if: all calls of a request are made at once. The longest takes its time, and what others take beyond it: nothing.
          def parallel=(parallel)
            @parallel = parallel
            calls.timeline = Timeline.new(parallel)
          end

          # What the request that mode :record began has recorded: a Hash for JSON, which `load` takes in another shadow.
          def recordings
            @recorder.dump
          end

          # Takes what `recordings` of this or another shadow returned, or an Array of these.
          def load(recordings)
            (recordings.is_a?(Array) ? recordings : [recordings]).each { |one| @recordings.load(one) }
          end

          # What the request's calls were in mode :replay: {"https://api.example:443" => {"calls" => 15, "connections" => 1, "connect_us" => 30_000, "tls_us"
          # => 31_000, "wait_us" => 450_000, "rest_us" => 0}}. Times are those that they were to take, after `parallel`.
          def counts
            calls.timeline.counts
          end

          # What the stand-in has seen since it was started: see StandIn#report. Nil if it was not needed.
          def report
            @stand_in&.report
          end

          # Ends the stand-in. It ends with the shadow in any case.
          def close
            stand_in, @stand_in = @stand_in, nil
            stand_in&.close
          end

          # For the hooks: makes a call (the block).
          def call(http, req, body)
            return yield if exchange_of(req)

            admitted = admit(http, req, body)
            begin
              yield
            rescue StandardError => e
              failed(http, e) if record? && !admitted.attempt&.kept?
              raise
            end
          ensure
            req.remove_instance_variable(:@paceline_exchange) if admitted
          end

          # For the hooks: opens a connection (the block).
          def connect(http)
            before = Thread.current[:paceline_connecting]
            Thread.current[:paceline_connecting] = http
            http.instance_variable_set(:@paceline_connection, nil)
            Authority.install if Origin.of(http).tls?
            yield
            connection = http.instance_variable_get(:@paceline_connection)
            @recorder.connection(connection) if record? && connection && !connection.origin.tls?
          rescue StandardError => e
            failed(http, e) if record?
            raise
          ensure
            Thread.current[:paceline_connecting] = before
          end

          # Whether a connection of Net::HTTP is being opened here.
          def connecting?
            !Thread.current[:paceline_connecting].nil?
          end

          # For the hooks: opens the socket of a connection. The block is given the port of the stand-in, or nil for the real destination.
          def open_socket(http)
            connection = @connections.next(Origin.of(http), @mode)
            connection.began = Outbound.now
            socket = yield(record? ? nil : stand_in.port)
            connection.opened = Outbound.now
            unless record?
              stand_in.introduce(socket, connection)
              connection.due = connection.began + calls.timeline.connect(connection, @recordings.connect_us(connection.origin))
              @sleep.until(connection.due) unless connection.origin.tls?
            end
            http.instance_variable_set(:@paceline_connection, connection)
            @connections.add(socket, connection)
          end

          # For the hooks: shakes hands (the block) on `socket`, an SSLSocket. Until then the connection was opening: its certificates were read, and a
          # proxy was asked for a tunnel.
          def shake_hands(http, socket)
            connection = http.instance_variable_get(:@paceline_connection) or return yield
            unless record?
              Authority.trust(socket.context, stand_in.authority)
              @sleep.until(connection.due)
            end
            began = Outbound.now
            result = yield
            if record?
              connection.opened = began
              connection.secured = Outbound.now
              @recorder.connection(connection)
            else
              @sleep.until(began + calls.timeline.tls(connection, @recordings.tls_us(connection.origin)))
            end
            result
          rescue StandardError => e
            failed(http, e) if record?
            raise
          end

          # For the hooks: a request is about to be written to `socket` (a Net::BufferedIO or nil). One that leads elsewhere is closed, and Net::HTTP
          # opens another.
          def look_at(socket)
            @connections.of(socket)&.mode == @mode or @connections.abandon(socket) unless socket.nil? || socket.closed?
          end

          # For the hooks: a request is written next.
          def start(http, socket, req)
            exchange = exchange_of(req) || admit(http, req, nil)
            if record?
              req.delete("connection") if exchange.keep_open && req["connection"] == "close"
              exchange.attempt = @recorder.start(exchange.key, socket.io)
            else
              connection = @connections.of(socket)
              wait, rest = calls.timeline.call(connection, exchange.recording)
              stand_in.answer(connection.id, exchange.recording, Outbound.now + wait, rest)
            end
          end

          # For the hooks: the response was read.
          def finish(req)
            attempt = exchange_of(req)&.attempt
            @recorder.keep(attempt) if attempt
          end

          # For the hooks: sends a request and reads the response (the block). Half a response is kept if the application wants no more of it.
          def transport(req)
            yield
          rescue Timeout::Error
            exchange_of(req)&.attempt&.lose
            raise
          ensure
            attempt = exchange_of(req)&.attempt
            @recorder.keep(attempt, cut: true) if attempt&.begun?
          end

          # For the hooks: the block that the application reads the response with, or one around it. If it leaves the body half-way, Net::HTTP waits for
          # the end of the connection, which the server was not asked for.
          def reading(req, block)
            exchange = exchange_of(req)
            return block unless record? && exchange&.keep_open

            lambda do |response|
              response.extend(Recorder::Reading)
              block.call(response).tap { exchange.attempt.leave if response.paceline_left? }
            end
          end

          # Monotonic microseconds.
          def now
            PunctualSleep.now
          end

          private

          def begin_calls(name)
            CurrentRequest.get.calls = Calls.new(name, Hash.new(0), Timeline.new(@parallel))
          end

          # Those of the request in hand.
          def calls
            CurrentRequest.get.calls || begin_calls(nil)
          end

          def record?
            @mode == :record
          end

          def stand_in
            @stand_in || @mutex.synchronize { @stand_in ||= StandIn.new }
          end

          def exchange_of(req)
            req.instance_variable_get(:@paceline_exchange)
          end

          # Raises Refused for what is not to be made.
          def admit(http, req, body)
            origin = Origin.of(http)
            url = "#{req.method} #{origin}#{req.path[/\A[^?]*/]}"
            refuse(url, "is no GET or HEAD") unless SAFE.include?(req.method)
            refuse(url, "goes through a proxy that speaks TLS") if http.instance_variable_get(:@proxy_use_ssl)
            refuse(url, "has a body that is a stream") if req.body_stream
            exchange = Exchange.new(Recordings.key(origin, req, req.body || body), !http.started? && req["connection"].nil?)
            if record? then refuse(url, @recorder.full) if @recorder.full
            else exchange.recording = @recordings.take(exchange.key, calls) || refuse(url, "was not recorded")
            end
            req.instance_variable_set(:@paceline_exchange, exchange)
          end

          def refuse(url, why)
            note("#{url} #{why}")
            raise Refused, "#{url} #{why}"
          end

          # In mode :record: a replay could not be given this.
          def failed(http, error)
            return if error.is_a?(Refused) || error.equal?(@noted)

            @noted = error
            note("a call to #{Origin.of(http)} failed: #{error.class}")
          end

          def note(what)
            @shadow.note_write(kind: "outbound", what: what)
          end
        end
      end
    end
  end
end
