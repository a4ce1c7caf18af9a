# frozen_string_literal: true

# A load generator in a process of its own: one thread, sockets that don't block, every response checked. After the time is
# over it sends nothing more and waits for what is under way, so the server's work and the answers counted are the same; the
# rate is that of the answers within the time.
#
# Good for some thousands of requests a second; wrk is used where servers are faster (see Wrk). Its latencies include
# connecting.
require_relative "client_connection"
require_relative "measurement"

module Bench
  class Load
    # Seconds without any answer after which the run is given up.
    PATIENCE = 30
    # COMPLETED: right answers, also those that came after the time; TIMELY: those within SECONDS.
    Result = Struct.new(:completed, :timely, :seconds, :failures, :latencies, :own_cpu, keyword_init: true)

    # MIX: pairs of a Kind and its share of the requests. COUNT ends the run after so many requests instead of SECONDS. With RATE
    # requests are sent at fixed times (open loop), however long the answers take.
    def initialize(port:, mix:, connections:, keep_alive:, seconds: nil, count: nil, rate: nil, seed: 1)
      @port = port
      @mix = mix
      @keep_alive = keep_alive
      @seconds = seconds
      @count = count
      @rate = rate
      @random = Random.new(seed)
      @idle = Array.new(rate ? 0 : connections) { ClientConnection.new(port, keep_alive) }
      @busy = {}
      @failures = Hash.new(0)
      @latencies = @mix.to_h { |kind, _| [kind.name, []] }
      @sent = 0
      @timely = 0
    end

    # Runs in a child process, whose pid is given to the block while it works.
    def in_child
      reading, writing = IO.pipe(binmode: true)
      pid = fork do
        reading.close
        writing.write(Marshal.dump(run))
        writing.close
        exit!(0)
      end
      writing.close
      answer = yield(pid, reading)
      Process.waitpid(pid)
      raise NoResult, "the load generator failed" if answer.empty?

      Marshal.load(answer) # our own child wrote it
    ensure
      reading&.close
    end

    def run
      @began = now
      @progressed = @began
      @deadline = @began + @seconds if @seconds
      step until over?
      @busy.each_value { |connection| @failures["#{connection.kind.path}: no answer for #{PATIENCE} s"] += 1 }
      used = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
      completed = @latencies.sum { |_, values| values.size }
      Result.new(completed: completed, timely: @timely, seconds: @seconds || @progressed - @began, failures: @failures.to_a, latencies: @latencies, own_cpu: used)
    end

    private

    def step
      @rate ? send_what_is_due : send_on_idle_connections
      return if @busy.empty? && @rate.nil?

      writing = @busy.each_value.select(&:writing?).map(&:socket)
      ready = IO.select(@busy.keys, writing, nil, pause) or return
      ready[1].each { |socket| @busy[socket].write }
      (ready[0] + ready[1]).uniq.each { |socket| receive(socket) }
    end

    def receive(socket)
      connection = @busy[socket]
      return if !connection || !connection.read

      @busy.delete(socket)
      @progressed = now
      finished(connection)
    end

    def finished(connection)
      if connection.failure
        @failures["#{connection.kind.path}: #{connection.failure}"] += 1
      else
        @latencies[connection.kind.name] << @progressed - connection.began
        @timely += 1 unless @deadline && @progressed > @deadline
      end
      @idle << connection
    end

    def send_on_idle_connections
      send_one(@idle.pop, now) while sending? && !@idle.empty?
    end

    def send_what_is_due
      while sending? && (due = @began + @sent / @rate.to_f) <= now
        send_one(@idle.pop || ClientConnection.new(@port, @keep_alive), due)
      end
    end

    def send_one(connection, began)
      @sent += 1
      connection.start(choose, began)
      connection.failure ? finished(connection) : @busy[connection.socket] = connection
    end

    def choose
      return @mix[0][0] if @mix.size == 1

      number = @random.rand
      @mix.each { |kind, share| return kind if (number -= share) < 0 }
      @mix[-1][0]
    end

    def sending?
      return false if @failures.sum(&:last) > 20

      @count ? @sent < @count : now < @deadline
    end

    def over?
      return true if now - @progressed > PATIENCE

      @busy.empty? && !sending?
    end

    def pause
      return 1 unless @rate && sending?

      (@began + @sent / @rate.to_f - now).clamp(0, 1)
    end

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
