# Thousands of clients at once, played by crates/loadgen in a process of its own. It judges nothing.
class Crowd
  PROGRAM = File.join(Scenario::CHECKOUT, "target/release/loadgen")

  # In a checkout that has not built it, it is built.
  def self.program
    return PROGRAM if File.executable?(PROGRAM)
    system("cargo", "build", "--release", "--quiet", "--locked", "--bin", "loadgen", chdir: Scenario::CHECKOUT) or raise "loadgen can't be built"
    PROGRAM
  end

  def self.around(port)
    crowd = new(port)
    yield crowd
  ensure
    crowd&.leave
  end

  def initialize(port)
    @io = IO.popen([self.class.program, "127.0.0.1:#{port}"], "r+")
  end

  # Sends a command; its answer's names and numbers.
  def tell(command, within: Scenario::PATIENCE)
    @io.puts(command)
    line = Timeout.timeout(within) { @io.gets } or raise "the load generator ended at #{command.inspect}"
    line.scan(/(\w+)=(\d+)/).to_h { |name, number| [name.to_sym, number.to_i] }
  end

  def leave
    return if @io.closed?
    @io.puts("quit")
    @io.close
  rescue Errno::EPIPE
    @io.close
  end
end
