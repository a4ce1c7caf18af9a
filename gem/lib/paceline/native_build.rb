# frozen_string_literal: true

require "fileutils"
require "open3"
require "tmpdir"
require_relative "native"

module Paceline
  # `paceline native`: compiles the native part for the Ruby that runs this, into the folder of the installed gem. RubyGems does it, too, when the gem without
  # the server's program is installed (ext/Rakefile). Downloads nothing itself; cargo may, if the gem brings no compiled Rust.
  module NativeBuild
    class Failed < StandardError; end

    EXTENSION = File.expand_path("../../ext/paceline_native", __dir__)
    USAGE = "Usage: paceline native      compile the gem's native part for this Ruby (#{RbConfig.ruby})\n"
    private_constant :EXTENSION, :USAGE

    module_function

    # Runs it, and returns the exit status: 0, 1 if it failed, 2 if it was not understood.
    def run(arguments, out: $stdout, err: $stderr)
      unless arguments.empty?
        help = %w[-h --help].include?(arguments.first)
        (help ? out : err).puts(USAGE)
        return help ? 0 : 2
      end
      out.puts(build)
      0
    rescue Failed, SystemCallError => e
      err.puts("paceline: the native part is not built: #{e.message}")
      1
    end

    # Compiles and installs it. Returns what it made, in a sentence. Raises Failed, SystemCallError.
    def build
      raise Failed, "this installation has no #{EXTENSION}" unless File.directory?(EXTENSION)

      lacking = lacks
      raise Failed, "#{lacking.join(", ")} #{lacking.size == 1 ? "is" : "are"} missing: install #{lacking.size == 1 ? "it" : "them"}, then run `paceline native`" unless lacking.empty?

      Dir.mktmpdir("paceline-native") do |folder|
        compile(folder)
        parts = install(File.join(folder, NativePart::NAME))
        "built for Ruby #{RUBY_VERSION}: #{File.join(NativePart::FOLDERS.first, NativePart::NAME)}" \
          "#{", without its half in Rust (stores, XML), which needs cargo" unless parts == "true"}"
      end
    end

    # What compiling needs and is not here.
    def lacks
      compiler = RbConfig::CONFIG["CC"].to_s.split.first.to_s
      missing = []
      missing << "a C compiler (#{compiler})" unless program?(compiler)
      missing << "make" unless program?("make")
      missing << "Ruby's headers (#{RbConfig::CONFIG["rubyhdrdir"]}; Debian's package ruby-dev)" unless File.file?(File.join(RbConfig::CONFIG["rubyhdrdir"].to_s, "ruby.h"))
      missing
    end

    def program?(name)
      !name.empty? && ([""] + ENV["PATH"].to_s.split(":").map { |folder| "#{folder}/" }).any? { |folder| File.file?(folder + name) && File.executable?(folder + name) }
    end

    def compile(folder)
      # The half in Rust, which knows nothing of Ruby, comes with the packages.
      rust = Dir[File.expand_path("native/*/libpaceline_rust.so", __dir__)].first
      in_ruby(folder, File.join(EXTENSION, "extconf.rb"), *("--with-rust-library=#{rust}" if rust))
      checked(folder, "make")
    end

    def in_ruby(folder, *arguments)
      checked(folder, RbConfig.ruby, *arguments)
    end

    # What it prints. The whole of it is in the error if it fails.
    def checked(folder, *command)
      # What another Ruby or bundle has put there is not for this one.
      output, status = Open3.capture2e({ "RUBYOPT" => nil, "MAKEFLAGS" => nil, "MFLAGS" => nil }, *command, chdir: folder)
      raise Failed, "#{command.map { |word| File.basename(word) }.first(2).join(" ")} failed:\n#{output}" unless status.success?

      output
    end

    # Puts it in its place if this Ruby can load it there, beside the half in Rust. A running worker may have the old file mapped: it keeps it. Returns "true" if it has both halves.
    def install(built)
      target = NativePart::FOLDERS.first
      fresh = "#{target}.new"
      FileUtils.mkdir_p([target, fresh])
      FileUtils.cp(built, fresh)
      parts = in_ruby(fresh, "-r", File.join(fresh, NativePart::NAME), "-e", "print Paceline::Native.const_defined?(:Store)")
      File.rename(File.join(fresh, NativePart::NAME), File.join(target, NativePart::NAME))
      parts
    ensure
      FileUtils.rm_rf(fresh)
    end
  end
end

exit(Paceline::NativeBuild.run(ARGV)) if $PROGRAM_NAME == __FILE__
