# Visitors who ask without a pause, half of them over a connection that is kept; each request's outcome is noted.
# It judges nothing but whether an answer is the one that was asked for.
require_relative "wire"

class Traffic
  # `failure`: nil, or what the visitor got in place of his answer. `status` may be nil.
  Outcome = Struct.new(:method, :token, :keep_alive, :began, :ended, :status, :body, :failure) do
    # RFC 9110 section 9.2.2.
    def idempotent? = method != "POST"

    def to_s
      "#{method} #{token} (#{keep_alive ? "kept" : "new"} connection) at #{began.round(3)} for #{(ended - began).round(3)} s: #{failure}"
    end
  end

  # Answers to expect are "METHOD TOKEN" and whatever follows; `within`: seconds after which an answer is given up.
  def initialize(port, clients: 25, methods: %w[GET GET GET POST POST PUT DELETE], within: 60, seed: 1)
    @port, @methods, @within = port, methods, within
    @stop = false
    @epoch = now
    @threads = Array.new(clients) { |number| Thread.new { visit(number, Random.new(seed + number)) } }
  end

  # Seconds since the first request.
  def clock = now - @epoch

  # All outcomes, in the order of their ends. Each visitor finishes the request in his hands.
  def stop
    @stop = true
    @threads.flat_map(&:value).sort_by(&:ended)
  end

  private

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  def visit(number, random)
    outcomes = []
    socket, nth = nil, 0
    keep_alive = number.even?
    until @stop
      outcome = Outcome.new(@methods.sample(random: random), "#{number}-#{nth += 1}", keep_alive, clock)
      socket = ask(socket, outcome, random)
      outcome.ended = clock
      outcomes << outcome
    end
    outcomes
  ensure
    socket&.close
  end

  # The connection, if it goes on.
  def ask(socket, outcome, random)
    socket ||= Socket.tcp("127.0.0.1", @port, connect_timeout: @within).tap { |fresh| fresh.timeout = @within if fresh.respond_to?(:timeout=) }
    body = %w[POST PUT].include?(outcome.method) ? "x" * random.rand(1..2000) : nil
    socket.write(head(outcome, body), body.to_s)
    raise Wire::Broken, "no answer within #{@within} s" unless socket.wait_readable(@within)
    response = Wire.response(socket, to: outcome.method)
    judge(outcome, response)
    return socket if outcome.keep_alive && !response["connection"].to_s.casecmp?("close")
    socket.close
    nil
  rescue SystemCallError, IOError, Wire::Broken => e
    outcome.failure = "#{e.class}: #{e.message}"
    socket&.close
    nil
  end

  def head(outcome, body)
    lines = ["#{outcome.method} /#{outcome.token} HTTP/1.1", "Host: x"]
    lines << "Connection: close" unless outcome.keep_alive
    lines << "Content-Length: #{body.bytesize}" if body
    "#{lines.join("\r\n")}\r\n\r\n"
  end

  def judge(outcome, response)
    outcome.status, outcome.body = response.status, response.body
    return if response.status == 200 && response.body.start_with?("#{outcome.method} #{outcome.token} ")
    outcome.failure = "#{response.line}: #{response.body[0, 200].inspect}"
  end
end
