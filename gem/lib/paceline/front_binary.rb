# frozen_string_literal: true

# Where the front's program is: PACELINE_BIN, the checkout's own build, the gem's, or the first in PATH that is not
# this gem's stub. Runs nothing.
module Paceline
  module FrontBinary
    class Missing < StandardError; end

    # In the order of their speed: bin/build's, bin/demo's, Cargo's own; then the gem's.
    PLACES = ["../../../target/release/paceline", "../../../target/demo/paceline", "../../../target/debug/paceline", "../../libexec/paceline"].freeze
    # A checkout has it, a gem has not.
    CHECKOUT = File.expand_path("../../../bin/build", __dir__)
    # The platforms for which there is a gem with the program in it.
    PLATFORMS = ["x86_64-linux", "aarch64-linux"].freeze
    private_constant :PLACES, :CHECKOUT

    module_function

    def find
      given = ENV["PACELINE_BIN"].to_s
      return given if executable?(given)
      raise Missing, "PACELINE_BIN is #{given}, which can't be run: correct the path" unless given.empty?
      candidates.find { |path| program?(path) } || raise(Missing, missing)
    end

    # What is missing here and what to do, in a sentence.
    def missing(platform = RbConfig::CONFIG.values_at("host_cpu", "host_os").join("-").sub(/-gnu\z/, ""), checkout: File.exist?(CHECKOUT))
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
  end
end
