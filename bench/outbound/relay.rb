# frozen_string_literal: true

# The wire between two network namespaces: `ruby relay.rb MILLISECONDS NAME=PID NAME=PID`. Makes two TUN devices, gives each to the namespace of
# a process, and hands every packet from one to the other, MILLISECONDS after it came. So all is delayed that a wire delays: handshakes, acknowledgements,
# resets. Says "ready" on standard output when the devices are where they belong, and goes on until standard input ends.
module Bench
  class OutboundRelay
    TUNSETIFF = 0x400454ca
    IFF_TUN = 0x0001
    IFF_NO_PI = 0x1000
    LARGEST = 65_536

    # A TUN device of this name, in the network of the process.
    def self.device(name, pid)
      io = File.open("/dev/net/tun", "r+b")
      io.sync = true
      io.ioctl(TUNSETIFF, [name, IFF_TUN | IFF_NO_PI].pack("a16Sx22"))
      system("ip", "link", "set", "dev", name, "netns", pid, exception: true)
      io
    end

    # DELAY in seconds; DEVICES: two, from which a packet is read at a time.
    def initialize(delay, devices)
      @delay = delay
      @devices = devices
      @other = { @devices[0] => @devices[1], @devices[1] => @devices[0] }
      # [when it is due, where to, packet]: always in order, since all wait equally long.
      @waiting = []
      precisely
    end

    # Until INPUT ends.
    def run(input)
      loop do
        ready, = IO.select([*@devices, input], nil, nil, pause)
        deliver
        next unless ready
        return if ready.delete(input)

        ready.each { |from| take(from) }
      end
    end

    private

    # Timers to the microsecond, where the kernel lets us.
    def precisely
      File.write("/proc/self/timerslack_ns", "1")
    rescue SystemCallError
      nil
    end

    def pause
      [@waiting[0][0] - now, 0].max if @waiting.any?
    end

    def take(from)
      due = now + @delay
      while (packet = from.read_nonblock(LARGEST, exception: false)).is_a?(String)
        @waiting << [due, @other[from], packet]
      end
    end

    def deliver
      moment = now
      while @waiting.any? && @waiting[0][0] <= moment
        _, to, packet = @waiting.shift
        begin
          to.syswrite(packet)
        rescue SystemCallError
          nil # the other end is down or can't take it: lost, as on a wire
        end
      end
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end

if $PROGRAM_NAME == __FILE__
  relay = Bench::OutboundRelay.new(Float(ARGV[0]) / 1000, ARGV.drop(1).map { |word| Bench::OutboundRelay.device(*word.split("=", 2)) })
  $stdout.puts "ready"
  $stdout.flush
  relay.run($stdin)
end
