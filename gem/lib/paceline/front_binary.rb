# frozen_string_literal: true

# Where the front's program is: PACELINE_BIN, the checkout's own build, the gem's, or the first in PATH that is not
# this gem's stub; and whether this machine can run it. Runs nothing.
module Paceline
  module FrontBinary
    class Missing < StandardError; end

    # In the order of their speed: bin/build's, bin/demo's, Cargo's own; then the gem's.
    PLACES = ["../../../target/release/paceline", "../../../target/demo/paceline", "../../../target/debug/paceline", "../../libexec/paceline"].freeze
    # A checkout has it, a gem has not.
    CHECKOUT = File.expand_path("../../../bin/build", __dir__)
    # The platforms for which there is a gem with the program in it: Linux with glibc.
    PLATFORMS = ["x86_64-linux-gnu", "aarch64-linux-gnu"].freeze
    HERE = RbConfig::CONFIG.values_at("host_cpu", "host_os").join("-").sub(/-linux\z/, "-linux-gnu").freeze
    # The type of an ELF program header that names the loader.
    INTERPRETER = 3
    private_constant :PLACES, :CHECKOUT, :INTERPRETER

    module_function

    def find
      given = ENV["PACELINE_BIN"].to_s
      return runnable(given) if executable?(given)
      raise Missing, "PACELINE_BIN is #{given}, which can't be run: correct the path" unless given.empty?
      runnable(candidates.find { |path| program?(path) } || raise(Missing, missing))
    end

    # What is missing here and what to do, in a sentence.
    def missing(platform = HERE, checkout: File.exist?(CHECKOUT))
      return "nothing is built yet in #{File.expand_path("../../..", __dir__)}: run `bin/build` there, or `bin/build demo`, which is done sooner, or set PACELINE_BIN" if checkout
      return "this gem has no program for #{platform}, only for #{PLATFORMS.join(", ")}: serve with another server here, such as Puma, or set PACELINE_BIN" unless PLATFORMS.include?(platform)
      "this is the gem without the program for #{platform}: run `bundle lock --add-platform #{platform} && bundle install`, " \
        "or `gem install paceline --platform #{platform}`, or set PACELINE_BIN"
    end

    def candidates
      near = PLACES.map { |place| File.expand_path(place, __dir__) }
      near + ENV["PATH"].to_s.split(":").map { |dir| File.join(dir, "paceline") }
    end

    def executable?(path)
      !path.empty? && File.file?(path) && File.executable?(path)
    end

    # A script of this name is a stub like this gem's own, which would start itself without end.
    def program?(path)
      executable?(path) && File.binread(path, 2) != "#!"
    rescue SystemCallError
      false
    end

    # The path, if this machine can run what is there. The system would have a shell read it otherwise, as a script.
    def runnable(path)
      reason = unfit(path)
      return path unless reason
      raise Missing, "#{path} can't be run here, since #{reason}: serve with another server here, such as Puma, or set PACELINE_BIN"
    end

    # Why this machine can't run a program, or nil. Looks at its head (ELF, 64 bits) only: the processor, and the loader of its C library, which is another
    # one with musl (Alpine).
    def unfit(path, ruby: "/proc/self/exe")
      head = File.binread(path, 64).to_s
      return unless head.start_with?("\x7FELF\x02\x01".b) && head.bytesize == 64
      return "it is for another processor than #{RbConfig::CONFIG["host_cpu"]}" if head.byteslice(18, 2) != File.binread(ruby, 2, 18)

      loader = loader_of(path, *head.unpack("@32Q<@54S<S<"))
      "it needs #{loader}, the loader of another C library than this system's" unless loader.nil? || File.exist?(loader)
    rescue SystemCallError, RangeError
      nil # the system says what is wrong with it
    end

    # `at`, `size`, `count`: of the program headers.
    def loader_of(path, at, size, count)
      headers = File.binread(path, [size * count, 65_536].min, at).to_s
      header = Array.new(count) { |n| headers.byteslice(n * size, size).to_s }.find { |bytes| bytes.unpack1("L<") == INTERPRETER }
      return unless header && header.bytesize >= 40

      offset, length = header.unpack("@8Q<@32Q<")
      File.binread(path, [length, 4096].min, offset).to_s.delete_suffix("\0")
    end
  end
end
