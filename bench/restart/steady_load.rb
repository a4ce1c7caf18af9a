# frozen_string_literal: true

# Clients that ask again and again, with a pause for thought between an answer and the next request, while the server under them
# is restarted: each request is noted with its time and what came of it. Runs in a process of its own: one thread, sockets
# that don't block.
#
# Half of the clients keep their connection. One that the server closes while its client is thinking is opened again and no
# failure, since HTTP allows it at any time; everything else that is not the right answer is one.
require_relative "../lib/client_connection"

module Bench
  # An answer "v" and a number; remembers the number.
  class Version
    attr_reader :number
    attr_accessor :known_encoding

    PATTERN = /\Av(\d+)\n\z/

    def path = "/"
    def exact? = false

    # See Kind.
    def bytes(keep_alive)
      @number = nil
      "GET / HTTP/1.1\r\nHost: bench.test\r\nUser-Agent: paceline-bench\r\nAccept: */*\r\n#{"Connection: close\r\n" unless keep_alive}\r\n"
    end

    def wrong(_length, content)
      return "other content" unless (match = PATTERN.match(content))

      @number = match[1].to_i
      nil
    end
  end

  class SteadyLoad
    # One request: when it began and ended (CLOCK_MONOTONIC seconds), whether over a kept connection, and either the version that answered
    # or what went wrong.
    Request = Struct.new(:began, :ended, :kept, :version, :failure)
    # Kept connections that were closed between requests are counted apart.
    Result = Struct.new(:requests, :closed_idle, :own_cpu)
    Client = Struct.new(:connection, :kept, :due)

    # Seconds that an answer may take.
    PATIENCE = 10

    def initialize(port:, clients: 25, think: 0.1)
      @port = port
      @think = think
      @clients = Array.new(clients) do |number|
        kept = number.even?
        Client.new(ClientConnection.new(port, kept), kept, 0)
      end
      @requests = []
      @closed_idle = 0
    end

    # Starts the child. `versions` then gives a line with a number each time another version answers than before.
    def start
      stopping, @stop = IO.pipe
      results, writing = IO.pipe(binmode: true)
      @versions, @telling = IO.pipe
      @telling.sync = true
      @pid = fork do
        [@stop, results, @versions].each(&:close)
        trap("TERM", "DEFAULT")
        run(stopping)
        writing.write(Marshal.dump(Result.new(@requests, @closed_idle, Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID))))
        writing.close
        exit!(0)
      end
      [stopping, writing, @telling].each(&:close)
      @results = results
      self
    end

    attr_reader :pid, :versions

    # Lets what is under way come to its end; all that was noted.
    def stop
      @stop.close
      answer = @results.read
      raise "the load generator failed" if answer.empty?

      Marshal.load(answer) # our own child wrote it
    ensure
      kill
    end

    def kill
      return unless @pid

      Process.kill("KILL", @pid)
      Process.waitpid(@pid)
      @pid = nil
    rescue Errno::ESRCH, Errno::ECHILD
      @pid = nil
    end

    private

    def run(stopping)
      @idle = @clients.each_with_index { |client, number| client.due = now + (@think * number / @clients.size) }.dup
      @busy = {}
      sending = true
      while sending || !@busy.empty?
        send_what_is_due if sending
        sending = false if step(sending ? [stopping] : [])
        give_up
      end
    end

    # True when it is to end.
    def step(stopping)
      resting = @idle.filter_map { |client| client.connection.socket }
      writing = @busy.each_value.select { |client| client.connection.writing? }.map { |client| client.connection.socket }
      ready = IO.select(@busy.keys + resting + stopping, writing, nil, pause) or return false
      ready[1].each { |socket| @busy[socket].connection.write }
      (ready[0] + ready[1]).uniq.each { |socket| @busy.key?(socket) ? receive(socket) : look(socket) }
      stopping.any? { |io| ready[0].include?(io) }
    end

    def pause
      due = @idle.map(&:due).min or return 0.5
      (due - now).clamp(0, 0.5)
    end

    def send_what_is_due
      due, @idle = @idle.partition { |client| client.due <= now }
      due.each do |client|
        client.connection.start(Version.new, now)
        client.connection.failure ? finished(client) : @busy[client.connection.socket] = client
      end
    end

    # A connection that is not in use can be read from: the server has closed it.
    def look(socket)
      client = @idle.find { |one| one.connection.socket.equal?(socket) } or return
      @closed_idle += 1
      client.connection.close
    end

    def receive(socket)
      client = @busy[socket]
      return unless client&.connection&.read

      @busy.delete(socket)
      finished(client)
    end

    def finished(client, failure = client.connection.failure)
      connection = client.connection
      note(Request.new(connection.began, now, client.kept, connection.kind.number, failure))
      client.due = now + @think
      @idle << client
    end

    def note(request)
      @requests << request
      return if request.failure || request.version == @told

      @told = request.version
      @telling.puts(@told)
    end

    def give_up
      late = @busy.select { |_, client| now - client.connection.began > PATIENCE }
      late.each do |socket, client|
        @busy.delete(socket)
        client.connection.close
        finished(client, "no answer for #{PATIENCE} s")
      end
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
