# The time of day as a server sees it, which a test sets while it serves (set_clock.c, preloaded).
require "rbconfig"
require "tmpdir"

class SetClock
  SOURCE = File.join(__dir__, "set_clock.c")

  # Why there is none on this machine, or nil.
  def self.missing
    return "no C compiler" unless system("cc --version", out: File::NULL, err: File::NULL)
    "the server is linked statically" if File.binread(Scenario::BIN, 4096).then { |head| !head.include?("ld-linux") }
  end

  # `folder`: for its files.
  def initialize(folder)
    @library = File.join(folder, "set_clock.so")
    @offset = File.join(folder, "offset")
    File.binwrite(@offset, [0].pack("q"))
    system("cc", "-shared", "-fPIC", "-O1", "-o", @library, SOURCE, "-ldl", exception: true)
  end

  # For the server.
  def env = { "LD_PRELOAD" => @library, "CLOCK_OFFSET" => @offset, "TZ" => "UTC" }

  # So many seconds later or earlier than the machine's own time.
  def set(seconds)
    @seconds = seconds
    File.open(@offset, "r+b") { |file| file.write([seconds].pack("q")) }
  end

  # The time of day that the server sees.
  def now = Time.now + @seconds.to_i
end
