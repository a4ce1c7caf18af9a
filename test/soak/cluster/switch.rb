# frozen_string_literal: true

# The cable between hosts, as a process of its own: takes each IP packet that a host sends and gives it to the host that it is for, later or not at all if a rule
# says so. Kernels without `tc netem` have it, too. It never looks into a packet beyond its addresses.
require "io/wait"
require "json"

class Switch
  TUN, NO_HEADER, SET_INTERFACE = 0x0001, 0x1000, 0x400454ca
  LARGEST = 65_536
  # Between two hosts, in one direction. `delay` in seconds, `loss` from 0 to 1, `cut`: nothing gets through.
  Rule = Struct.new(:delay, :loss, :cut, keyword_init: true)
  FREE = Rule.new(delay: 0, loss: 0, cut: false).freeze

  # An interface of this name, whose packets are read from what is returned.
  def self.interface(name)
    File.open("/dev/net/tun", "r+b").tap do |file|
      file.sync = true
      file.ioctl(SET_INTERFACE, [name, TUN | NO_HEADER].pack("a16Sx22"))
    end
  end

  # INTERFACES: {address => what `interface` has returned}.
  def initialize(interfaces, seed)
    @interfaces, @random = interfaces, Random.new(seed)
    @bytes = interfaces.transform_keys { |address| address.split(".").map(&:to_i).pack("C4") }
    @rules = Hash.new(FREE)
    @late = Hash.new { |late, direction| late[direction] = [] }
    @orders, @to_orders = IO.pipe
    @from_done, @done = IO.pipe
    @pid = fork { serve }
    [@orders, @done, *interfaces.values].each(&:close)
  end

  # From now on packets FROM one address TO another keep to the rule; returns when they do.
  def rule(from, to, **rule)
    @to_orders.puts(JSON.generate([from, to, rule]))
    @from_done.gets or raise "the switch has ended"
  end

  def free = rule(nil, nil)

  def close
    @to_orders.close
    Process.wait(@pid)
  end

  private

  # Ends when nobody gives orders any more.
  def serve
    %w[INT TERM].each { |signal| trap(signal, "IGNORE") }
    [@to_orders, @from_done].each(&:close)
    readers = [@orders, *@interfaces.values]
    loop do
      ready, = IO.select(readers, nil, nil, pause)
      deliver_late
      Array(ready).each { |io| io == @orders ? obey : forward(io) }
    end
  rescue EOFError
    exit! 0
  end

  def obey
    line = @orders.gets or raise EOFError
    from, to, rule = JSON.parse(line)
    from ? @rules[[from, to].map { |address| address.split(".").map(&:to_i).pack("C4") }] = Rule.new(**FREE.to_h, **rule.transform_keys(&:to_sym)) : @rules.clear
    @done.puts
    @done.flush
  end

  def forward(io)
    packet = io.read_nonblock(LARGEST)
    direction = [packet.byteslice(12, 4), packet.byteslice(16, 4)]
    rule = @rules[direction]
    return if packet.getbyte(0) >> 4 != 4 || rule.cut || (rule.loss > 0 && @random.rand < rule.loss)
    # What comes after packets that are still on their way does not overtake them.
    return deliver(direction.last, packet) if rule.delay.zero? && @late[direction].empty?
    @late[direction] << [now + rule.delay, packet]
  rescue IO::WaitReadable
    nil
  end

  def deliver_late
    time = now
    @late.each { |direction, packets| deliver(direction.last, packets.shift.last) while packets.any? && packets.first.first <= time }
  end

  def deliver(to, packet)
    @bytes[to]&.write_nonblock(packet)
  rescue SystemCallError, IO::WaitWritable
    # The host is down, or takes no more: it is lost, as on a wire.
    nil
  end

  # Until the next packet is due.
  def pause
    due = @late.each_value.filter_map { |packets| packets.first&.first }.min
    due && [due - now, 0].max
  end

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
end
