# Runs test files in several processes at a time, each file in one of its own: most scenarios wait for a clock or another process. What a file
# prints comes as one piece when it has ended, of a file that passed only its closing line and its time; the last line is that of all together.
#
# A file whose Ruby was ended by a signal runs once more: a crash, or a hang that the watch ended (gem/test/support/hang_watch.rb), of the tests' own
# process. What a server does wrong makes a test fail. What it printed is shown all the same.
#
#   FilesInProcesses.new(3, ["ruby", "test/e2e/run.rb"], ["--seed", "1"]).run(files)      # whether all of them passed
class FilesInProcesses
  COUNTS = %w[runs assertions failures errors skips].freeze
  CLOSING = /^#{COUNTS.map { |name| "(\\d+) #{name}" }.join(", ")}$/

  # `command`: what takes a file's name, and after it `options`. Of the files of which the block is true, one runs at a time, beside others.
  def initialize(processes, command, options = [], &single)
    @single = single || ->(_) { false }
    @processes = processes
    @command = command
    @options = options
    @running = {}
    @sums = COUNTS.to_h { |name| [name, 0] }
    @failed = []
    @crashed = []
  end

  def run(files)
    @waiting = files.dup
    until @waiting.empty? && @running.empty?
      while @running.size < @processes && (file = take)
        start(file)
      end
      await
    end
    puts "", @failed.map { |name| "failed: #{name}" }, COUNTS.map { |name| "#{@sums[name]} #{name}" }.join(", ")
    @failed.empty?
  ensure
    @running.each_key { |pid| Process.kill(:TERM, pid) }
  end

  private

  # The first of those that may run now.
  def take
    busy = @running.each_value.any? { |file,| @single.call(file) }
    index = @waiting.index { |file| !busy || !@single.call(file) }
    @waiting.delete_at(index) if index
  end

  def start(file)
    read, write = IO.pipe
    pid = Process.spawn(*@command, file, *@options, in: File::NULL, out: write, err: write)
    write.close
    text = +""
    @running[pid] = [file, now, read, text, Thread.new { collect(read, text) }]
  end

  # What was printed counts up to where the pipe is closed, at either end.
  def collect(from, text)
    loop { text << from.readpartial(65_536) }
  rescue IOError
    nil
  end

  # Waits for the next file that ends.
  def await
    pid, status = Process.wait2
    file, began, read, text, reader = @running.delete(pid)
    seconds = now - began
    # A process that tests left running may keep the pipe open.
    left = reader.join(5).nil?
    read.close
    reader.join
    text << "it left a process that has its output open\n" if left
    add(file, text, status, seconds)
  end

  def add(file, text, status, seconds)
    if status.signaled? && !@crashed.include?(file)
      @crashed << file
      @waiting << file
      puts "#{file}: #{status}; it runs once more\n#{text}"
      return
    end
    counts = text.scan(CLOSING).last
    counts&.each_with_index { |count, index| @sums[COUNTS[index]] += count.to_i }
    passed = status.success? && counts
    @failed << file unless passed
    puts passed ? "#{File.basename(file)}: #{text[CLOSING]}, #{seconds.round} s" : "#{file}: #{status}\n#{text}"
    $stdout.flush
  end

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
end
