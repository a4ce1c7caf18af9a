# Thousands of clients at once, played by crates/bench in a process of its own. It judges nothing.
require_relative "../../../bench/lib/loadgen"

class Crowd
  def self.around(port)
    crowd = new(port)
    yield crowd
  ensure
    crowd&.leave
  end

  def initialize(port)
    @io = IO.popen([Bench::Loadgen.program, "crowd", "127.0.0.1:#{port}"], "r+")
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
