# frozen_string_literal: true

# The server's page cache, from the app, a console or a job: purges and statistics, over the server's control socket. Each
# call is a connection of its own, so that threads and forks share nothing. Loads no gem, and never waits long.
require "socket.so" # not "socket", whose Ruby half activates the gem io-wait

module Paceline
  # The page cache of the server that serves this app.
  def self.cache
    Cache
  end

  module Cache
    # No server answers.
    class Unreachable < StandardError; end

    # Where the server told its processes that it is.
    VARIABLE = "PACELINE_CONTROL"
    CONNECT_TIMEOUT = 1 # seconds
    ANSWER_TIMEOUT = 5
    LONGEST_PATH = 107 # of a socket's address
    ESCAPES = { '"' => '\\"', "\\" => "\\\\" }.freeze
    private_constant :VARIABLE, :CONNECT_TIMEOUT, :ANSWER_TIMEOUT, :LONGEST_PATH, :ESCAPES

    @lock = Mutex.new
    @warned = nil

    class << self
      # Drops all variants of a `url`, all pages with a `tag`, all whose URL begins with `prefix`, or `all: true`. With `soft: true`
      # they are marked stale instead. Returns how many responses that were; nil without a server (under Puma, in tests), which is
      # warned of once. ArgumentError: what is to be purged makes no sense.
      #
      #   Paceline.cache.purge(tag: "issue-42")
      def purge(**what)
        purge!(**what)
      rescue Unreachable => e
        warn_once(e.message)
        nil
      end

      # Purges as `purge` does, but raises Unreachable without a server.
      def purge!(url: nil, tag: nil, prefix: nil, all: false, soft: false)
        given = { url: url, tag: tag, prefix: prefix, all: all || nil }.compact
        raise ArgumentError, "use exactly one of url:, tag:, prefix: and all: true" unless given.size == 1
        name, value = given.first
        value = name == :all ? "true" : json_string(name, value)
        answer = ask("POST", "/cache/purge", %({"#{name}":#{value},"soft":#{soft ? true : false}}))
        Integer(answer[/"purged":\s*(\d+)/, 1] || raise(Unreachable, "the page cache's server answered #{answer[0, 100].inspect}"))
      end

      # What the cache holds and did, as a Hash; nil without a server.
      def stats
        answer = ask("GET", "/cache/stats")
        require "json"
        JSON.parse(answer)
      rescue Unreachable => e
        warn_once(e.message)
        nil
      end

      # The path of the server's control socket; nil: it has none.
      def socket
        named = ENV[VARIABLE].to_s
        return named == "off" ? nil : named unless named.empty?
        root = defined?(::Rails) && ::Rails.respond_to?(:root) && ::Rails.root
        File.join((root || Dir.pwd).to_s, "tmp", "paceline.sock")
      end

      private

      def warn_once(message)
        first = @lock.synchronize { @warned != Process.pid && @warned = Process.pid }
        warn "paceline: #{message}" if first
      end

      def json_string(name, value)
        text = value.to_s.encode(Encoding::UTF_8)
        raise ArgumentError, "#{name}: must not be empty" if text.empty?
        raise ArgumentError, "#{name}: is not valid UTF-8" unless text.valid_encoding?
        %("#{text.gsub(/["\\\u0000-\u001f]/) { |c| ESCAPES[c] || format("\\u%04x", c.ord) }}")
      rescue EncodingError
        raise ArgumentError, "#{name}: can't be converted to UTF-8"
      end

      # The body of the answer.
      def ask(method, path, body = "")
        where = socket or raise Unreachable, "this server has no control socket, because control = \"off\""
        request = "#{method} #{path} HTTP/1.1\r\nHost: paceline\r\nConnection: close\r\n" \
                  "Content-Type: application/json\r\nContent-Length: #{body.bytesize}\r\n\r\n#{body}"
        head, _, answer = exchange(where, request.b).partition("\r\n\r\n")
        answer.force_encoding(Encoding::UTF_8)
        case head[%r{\AHTTP/1\.1 (\d\d\d) }, 1]
        when "200" then answer
        when /\A4/ then raise ArgumentError, (answer[/"error":\s*"((?:\\.|[^"\\])*)"/, 1] || head).gsub(/\\(.)/, '\1')
        else raise Unreachable, "the page cache's server at #{where} answered #{head.lines.first.to_s.strip.inspect}"
        end
      rescue SystemCallError, IOError => e
        raise Unreachable, "the page cache's server can't be reached at #{where}: #{e.message}"
      end

      def exchange(where, request)
        deadline = now + CONNECT_TIMEOUT + ANSWER_TIMEOUT
        io = connect(where)
        begin
          io.write(request) # it fits into the socket's buffer
          answer = String.new(encoding: Encoding::BINARY)
          while (part = read_part(io, deadline))
            raise Unreachable, "the page cache's server at #{where} does not answer" if part == :late
            answer << part unless part == :wait_readable
          end
          answer
        ensure
          io.close
        end
      end

      # nil at the end.
      def read_part(io, deadline)
        left = deadline - now
        return :late unless left.positive? && IO.select([io], nil, nil, left)
        io.read_nonblock(65_536, exception: false)
      end

      # The kernel makes it wait while the server takes no connections; a thread can be left waiting.
      def connect(where)
        connecting = Thread.new do
          open_socket(where)
        rescue SystemCallError => e
          e # raised here, it could end the process (Thread.abort_on_exception)
        end
        if connecting.join(CONNECT_TIMEOUT)
          connected = connecting.value
          return connected unless connected.is_a?(SystemCallError)
          raise connected
        end
        connecting.kill
        raise Unreachable, "the page cache's server at #{where} takes no connections"
      end

      def open_socket(where)
        return UNIXSocket.new(where) if where.bytesize <= LONGEST_PATH
        File.open(File.dirname(where)) do |folder|
          UNIXSocket.new("/proc/self/fd/#{folder.fileno}/#{File.basename(where)}")
        end
      end

      def now
        Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end
    end
  end
end
