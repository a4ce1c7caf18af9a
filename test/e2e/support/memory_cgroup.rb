# A control group of its own with a memory limit, and no swap unless it is allowed some (cgroups(7), version 1 or 2, whichever has the memory controller here).
class MemoryCgroup
  V1 = "/sys/fs/cgroup/memory"
  V2 = "/sys/fs/cgroup"

  # nil where none can be made: not root, or no memory controller.
  # SWAP: bytes that may be swapped out.
  def self.make(bytes, swap: 0)
    new(bytes, swap).tap(&:open)
  rescue SystemCallError
    nil
  end

  def initialize(bytes, swap = 0)
    @bytes = bytes
    @swap = swap
    @v1 = File.directory?(V1)
    @folder = File.join(@v1 ? V1 : V2, "paceline-test-#{Process.pid}-#{rand(1 << 32).to_s(16)}")
  end

  def open
    File.write(File.join(V2, "cgroup.subtree_control"), "+memory") unless @v1
    Dir.mkdir(@folder)
    write(@v1 ? "memory.limit_in_bytes" : "memory.max", @bytes)
    # The first one: memory and swap together.
    @v1 ? write("memory.memsw.limit_in_bytes", @bytes + @swap) : write("memory.swap.max", @swap)
  rescue SystemCallError
    remove
    raise
  end

  # The command that runs another one in here, which takes its place.
  def command = ["sh", "-c", "echo $$ > #{@folder}/cgroup.procs && exec \"$0\" \"$@\""]

  # How often the kernel killed a process for want of memory.
  def killed = File.read(File.join(@folder, @v1 ? "memory.oom_control" : "memory.events"))[/^oom_kill (\d+)/, 1].to_i

  # The most that was in use at any time, bytes.
  def most = File.read(File.join(@folder, @v1 ? "memory.max_usage_in_bytes" : "memory.peak")).to_i

  # Once all its processes are gone.
  def remove
    Dir.rmdir(@folder)
  rescue Errno::ENOENT
    nil
  end

  private

  def write(name, value) = File.write(File.join(@folder, name), value.to_s)
end
