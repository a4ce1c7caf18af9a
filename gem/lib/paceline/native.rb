# frozen_string_literal: true

# The native part (ext/paceline_native), if it was built for this Ruby: `Paceline::Native`, or nil. What it does is also there in Ruby, with the
# same bytes, except the store. `PACELINE_NATIVE=0` does without it. Paceline::NativePart says what is missing of it.
module Paceline
  # Where the native part is, and what to do where it is not. Compiles nothing: native_build.rb does.
  module NativePart
    # A folder for each Ruby, of a checkout (bin/native), of the packages and of `paceline native`. The packages' names fit x86_64-linux and Debian's name
    # for that, x86_64-linux-gnu.
    FOLDERS = [RbConfig::CONFIG["arch"], RbConfig::CONFIG["arch"].delete_suffix("-gnu")].uniq.map do |arch|
      File.expand_path("native/#{RbConfig::CONFIG["ruby_version"]}-#{arch}", __dir__)
    end.freeze
    NAME = "paceline_native.#{RbConfig::CONFIG["DLEXT"]}"
    CHECKOUT = File.expand_path("../../../bin/native", __dir__)
    private_constant :CHECKOUT

    class << self
      # Why the file that is there does not fit, by whoever loaded it.
      attr_accessor :unfit

      # Its file, or nil.
      def file
        FOLDERS.map { |folder| File.join(folder, NAME) }.find { |file| File.file?(file) }
      end

      # Whether Paceline::Records can be used: its half in Rust is there.
      def store?
        Native.is_a?(Module) && Native.const_defined?(:Store)
      end

      # What is missing here and what to do, in a sentence; nil if all of it is loaded.
      def missing
        ruby = "Ruby #{RUBY_VERSION[/\A\d+\.\d+/]}"
        return (store? ? nil : "its half in Rust (stores, XML) was not built: #{remedy("cargo")}") if Native
        return "PACELINE_NATIVE=0 leaves it out" if ENV["PACELINE_NATIVE"] == "0"
        return "#{unfit}: #{remedy}" if unfit

        "this installation has none for #{ruby} on #{RbConfig::CONFIG["arch"]}: #{remedy}"
      end

      private

      def remedy(*more)
        return "run bin/native" if File.exist?(CHECKOUT)

        "install #{["a C compiler", "make", "Ruby's headers", *more].then { |all| "#{all[..-2].join(", ")} and #{all.last}" }}, then run `paceline native`"
      end
    end
  end

  begin
    require NativePart.file if NativePart.file && ENV["PACELINE_NATIVE"] != "0"
  rescue LoadError => e
    NativePart.unfit = "#{NativePart.file} does not fit this Ruby (#{e.message})"
    warn "paceline: #{NativePart.unfit}; continuing without it"
  end
  Native = nil unless const_defined?(:Native)
end
