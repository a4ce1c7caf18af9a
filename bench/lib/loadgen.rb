# frozen_string_literal: true

# Where the load generator is, crates/bench. In a checkout that has not built it, it is built; LOADGEN_BIN names another one.
module Bench
  module Loadgen
    HERE = File.expand_path("../..", __dir__)
    BUILT = File.join(HERE, "target/release/loadgen")

    def self.program
      @program ||= ENV.fetch("LOADGEN_BIN") { build }
    end

    # Cargo knows whether it is up to date.
    def self.build
      path = { "PATH" => "#{ENV.fetch("PATH")}:#{Dir.home}/.cargo/bin" }
      built = system(path, "cargo", "build", "--release", "--quiet", "--locked", "--bin", "loadgen", chdir: HERE)
      raise "loadgen can't be built: run `cargo build --release --bin loadgen`" unless built || (built.nil? && File.executable?(BUILT))

      BUILT
    end
    private_class_method :build
  end
end
