# frozen_string_literal: true

# What each command of a front costs a real Valkey: microseconds of its thread, and bytes. The commands are those that real fronts have sent; they come one at a
# time on many connections, as those of many fronts do. It never looks at how fast the generator is: the thread's own time is counted.
require "socket"
require "tmpdir"
require_relative "../../test/e2e/support/valkey"
require_relative "../lib/processes"
require_relative "recording"

module Bench
  class ClusterCosts
    # Connections that have a command each at the same time.
    CONNECTIONS = 50
    FEW, MORE, BATCH = 3, 200, 64
    # Purges a second of each real front, and for how many seconds.
    EACH, PACED = 10, 4

    # OPTIONS: seconds for each kind, bytes of a page. The block is told what is measured.
    def initialize(options, &told)
      @options, @told = options, told
    end

    # See ClusterModel#initialize for the costs; and what the mix of them took, beside what they say that it takes.
    def run
      Dir.mktmpdir("paceline-cluster-costs-") do |folder|
        @port = TCPServer.open("127.0.0.1", 0) { |socket| socket.addr[1] }
        @valkey = Valkey.new("--port", @port.to_s)
        @told.call("real fronts")
        sent = nil
        @shapes = ClusterRecording.new(@port, folder, @options[:bytes]).run { |recording| sent = recording.rates(EACH, PACED) }
        @valkey.cli("FLUSHALL")
        @sockets = Array.new(CONNECTIONS) { TCPSocket.new("127.0.0.1", @port).tap { |socket| socket.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1) } }
        costs = purges.merge(members, pages)
        { "costs" => costs, "mix" => mix(costs), "sent" => { "fronts" => ClusterRecording::FRONTS, "purges" => sent.first, "rates" => sent.last }, "server" => @valkey.version }
      ensure
        @sockets&.each(&:close)
        @valkey&.close
      end
    end

    private

    def purges
      one, many = measure("publish") { |number| publish(1, number) }, measure("publish of #{BATCH}") { |number| publish(BATCH, number) }
      # The journal has many entries by now: the last is read, and the last ones.
      last = @valkey.cli("HGET", key("end"), "number").to_i
      reads = [1, BATCH].map { |count| measure("read of #{count}") { |_| ["XREAD", "COUNT", "256", "STREAMS", key("journal"), "#{last - count}-#{(1 << 64) - 1}"] } }
      { "publish" => one, "entry" => per(one, many, BATCH - 1), "read" => woken(one), "read_entry" => per(*reads, BATCH - 1) }
    end

    # All connections wait for the next entry; a purge wakes them, and they wait again. Without what the purge itself costs.
    def woken(publish)
      writer = @sockets.pop
      last = @valkey.cli("HGET", key("end"), "number").to_i
      found = taken("read by #{@sockets.size} that wait") do |ends|
        rounds = 0
        until ends.call
          wait = encoded(["XREAD", "COUNT", "256", "BLOCK", "1000", "STREAMS", key("journal"), "#{last + rounds}-#{(1 << 64) - 1}"])
          @sockets.each { |socket| socket.write(wait) }
          writer.write(encoded(publish(1, rounds += 1)))
          [writer, *@sockets].each { |socket| reply(socket) }
        end
        rounds * @sockets.size
      end
      found.to_h { |figure, value| [figure, [value - (publish[figure] / @sockets.size), 0].max] }
    ensure
      @sockets << writer
    end

    def members
      few, many = [FEW, MORE].map do |count|
        @valkey.cli("DEL", key("members"))
        @beat = measure("beat of #{count}") { |number| beat(number % count) }
        measure("list of #{count} members") { |_| @shapes["members"] }
      end
      { "beat" => @beat, "members" => { **many, "fronts" => MORE }, "member" => per(few, many, MORE - FEW) }
    end

    def pages
      small, bytes = 100, @options[:bytes]
      lead = measure("miss") { |number| look(number) }
      @valkey.cli("FLUSHDB")
      stored = [small, bytes].map do |size|
        before = memory
        [measure("write of #{size} bytes") { |number| write(number, size) }, (memory - before) / @valkey.cli("DBSIZE").to_i.to_f].tap { @valkey.cli("FLUSHDB") }
      end
      hits = [small, bytes].map do |size|
        raise "the page is not stored" unless ask(write(0, size)) == ":1\r\n"
        measure("hit of #{size} bytes") { |_| look(0) }
      end
      (small_write, _), (large_write, memory) = stored
      per_write, per_hit = per(small_write, large_write, bytes - small), per(*hits, bytes - small)
      { "lead" => lead, "write" => without(small_write, per_write, small), "write_byte" => per_write, "hit" => without(hits.first, per_hit, small),
        "hit_byte" => per_hit, "page_bytes" => [memory - bytes, 0].max.round }
    end

    # All together, as 200 fronts would send them with 8 purges each for one page: the thread's time is what the single costs say.
    def mix(costs)
      count = 0
      commands = [*[:beat] * 9, *[:members] * 2, :publish, *[:look] * 3]
      expected = commands.sum { |kind| costs[{ look: "hit" }.fetch(kind, kind.to_s)]["us"] + (kind == :look ? costs["hit_byte"]["us"] * @options[:bytes] : 0) } / commands.size
      MORE.times { |number| ask(beat(number)) }
      ask(write(0, @options[:bytes]))
      found = measure("all together") do |number|
        case commands[(count += 1) % commands.size]
        when :beat then beat(number % MORE)
        when :members then @shapes["members"]
        when :publish then publish(1, number)
        else look(0)
        end
      end
      { "expected_us" => expected, **found }
    end

    # {"us", "in", "out"} of one command. The block makes it of its number.
    def measure(what)
      number = 0
      taken(what) do |ends|
        until ends.call
          @sockets.each { |socket| socket.write(encoded(yield(number += 1))) }
          @sockets.each { |socket| reply(socket) }
        end
        number
      end
    end

    # The block does something until it ends, and says how often.
    def taken(what)
      @told.call(what)
      before, limit = cost, now + @options[:seconds]
      count = yield(-> { now > limit })
      after = cost
      %w[us in out].zip(after.zip(before).map { |one, other| (one - other) / count.to_f }).to_h
    end

    # Microseconds of the thread, bytes that came and went.
    def cost
      net = @valkey.cli("INFO", "stats")
      ticks = Processes.parse_stat(File.read("/proc/#{@valkey.pid}/task/#{@valkey.pid}/stat")).ticks
      [ticks * 1e6 / Processes::TICKS, net[/total_net_input_bytes:(\d+)/, 1].to_i, net[/total_net_output_bytes:(\d+)/, 1].to_i]
    end

    def memory = @valkey.cli("INFO", "memory")[/^used_memory:(\d+)/, 1].to_i

    # What each of COUNT more costs.
    def per(few, many, count) = few.slice("us", "in", "out").to_h { |figure, value| [figure, [(many[figure] - value) / count.to_f, 0].max] }

    def without(whole, each, count) = whole.to_h { |figure, value| [figure, [value - (each[figure] * count), 0].max] }

    def key(name) = @shapes["beat"][3].sub(/\}:.*/, "}:#{name}")

    # Script, number of keys, keys; then what the front says.
    def parts(kind) = @shapes[kind].then { |all| [all[0, 3 + all[2].to_i], all[(3 + all[2].to_i)..]] }

    def beat(number)
      head, (_, said, *more) = parts("beat")
      id = format("%032x", number)
      [*head, id, JSON.generate(JSON.parse(said).merge("id" => id)), *more]
    end

    def publish(count, number)
      head, (from, journal, *order) = parts("publish")
      [*head, from, journal, *Array.new(count) { |nth| [format("%016x", (number * BATCH) + nth), order.last] }.flatten]
    end

    def look(number)
      head, said = parts("lead")
      [*head[0, 3], *head[3..].map { |one| numbered(one, number) }, *said]
    end

    # The page that was stored, cut or made longer, for a minute. It says when it was asked for: one from long before would be refused.
    def write(number, size)
      head, (token, _, page) = parts("write")
      body = page.byteslice(0, 4) + format("%016x", Time.now.to_f * 1e6) + page.byteslice(20, size - 20).ljust(size - 20, "x")
      [*head[0, 2], "2", *head[3, 2].map { |one| numbered(one, number) }, token, ((Time.now.to_f + 60) * 1000).to_i.to_s, body]
    end

    def numbered(key, number) = key.sub(/\h{32}\z/, format("%032x", number))

    def encoded(arguments) = "*#{arguments.size}\r\n#{arguments.map { |one| "$#{one.to_s.bytesize}\r\n#{one.to_s.b}\r\n" }.join}".b

    def ask(arguments)
      @sockets.first.write(encoded(arguments))
      reply(@sockets.first)
    end

    # Reads one answer.
    def reply(socket)
      line = socket.gets("\r\n") or raise "Valkey has ended"
      case line[0]
      when "*" then line[1..].to_i.clamp(0, nil).times { reply(socket) }
      when "$" then line.start_with?("$-1") ? nil : socket.read(line[1..].to_i + 2)
      when "-" then raise "Valkey answers #{line}"
      else line
      end
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
