# Where the server of this process listens for TCP: the sockets of this process and of those above it. From /proc, so nothing that a visitor sends has a say in it;
# elsewhere, and where /proc tells nothing, it finds none.
module ListeningSockets
  LISTEN = "0A".freeze
  # Processes above a worker.
  DEPTH = 5
  ANY = { "00000000" => "127.0.0.1", "0" * 32 => "127.0.0.1" }.freeze

  module_function

  # Pairs of an address of this machine and a port, the nearest process's first.
  def addresses
    listening = sockets
    above.flat_map { |pid| listening.values_at(*inodes(pid)).compact }.uniq
  rescue SystemCallError
    []
  end

  # This process and those above it. The first process of a machine is none of the server's; in a container it may be.
  def above
    pids = [Process.pid]
    DEPTH.times { pids << File.read("/proc/#{pids.last}/stat")[/.*\) \w (\d+)/, 1].to_i if pids.last > 1 }
    pids.size > 2 ? pids - [0, 1] : pids - [0]
  end

  # {inode => [address, port]}. Of IPv6 what listens on every address.
  def sockets
    %w[tcp tcp6].flat_map { |family| File.readlines("/proc/net/#{family}").drop(1) }.filter_map do |line|
      _, local, _, state, *, inode = line.split.first(10)
      address, port = local.split(":")
      [inode, [ip(address), port.hex]] if state == LISTEN && ip(address)
    end.to_h
  end

  def ip(hex)
    ANY[hex] || (hex.size == 8 ? [hex].pack("H*").bytes.reverse.join(".") : nil)
  end

  # Of the sockets that a process has open, as far as it may be known.
  def inodes(pid)
    Dir.children("/proc/#{pid}/fd").filter_map do |number|
      File.readlink("/proc/#{pid}/fd/#{number}")[/\Asocket:\[(\d+)\]\z/, 1]
    rescue SystemCallError
      nil
    end
  rescue SystemCallError
    []
  end
end
