# frozen_string_literal: true

# The native part of the gem. Optional: without it the same is done in Ruby, more slowly (lib/paceline/native.rb, lib/paceline/xml.rb).
# What of it is Rust (ext/rust: XML, and the store that Paceline::PStore needs) is linked as a static library; without cargo, or if cargo fails, it is left out.
# With `--enable-rust` it is an error if cargo fails. `--with-rust-library=FILE` names a shared library that has all of it, as the packages bring it.
require "mkmf"

# C files that call Rust.
NEED_RUST = /\A(xml_.*|store)\.c\z/

# The folder of the static library: what `--with-rust-target=DIR` has, if cargo is not here to bring it up to date.
def rust_library
  return unless File.directory?(File.expand_path("../rust/native", __dir__))

  # In a checkout it is a link into the workspace.
  crate = File.realpath("../rust/native", __dir__)
  target = with_config("rust-target") || File.join(Dir.pwd, "rust-target")
  cargo = find_executable("cargo") || [File.expand_path("~/.cargo/bin/cargo")].find { |file| File.executable?(file) }
  if cargo
    env = { "CARGO_TARGET_DIR" => target, "CARGO_PROFILE_RELEASE_DEBUG" => "0", "CARGO_PROFILE_RELEASE_LTO" => "fat",
            "CARGO_PROFILE_RELEASE_CODEGEN_UNITS" => "1", "RUSTFLAGS" => nil }
    built = system(env, cargo, "build", "--quiet", "--release", "--manifest-path", File.join(crate, "Cargo.toml"), "--package", "paceline-native")
    abort "cargo can't build ext/rust, and --enable-rust says that it must" if !built && enable_config("rust")
    return unless built
  end
  folder = File.join(target, "release")
  folder if File.file?(File.join(folder, "libpaceline_native.a"))
end

$CFLAGS << " -O3 -fvisibility=hidden -Wall -Wextra -Wno-unused-parameter"
if (shared = with_config("rust-library"))
  $defs << "-DPACELINE_RUST"
  # Both lie side by side in lib/paceline/native.
  $LOCAL_LIBS << " -L#{File.dirname(shared)} -l:#{File.basename(shared)}"
  $DLDFLAGS << " -Wl,--enable-new-dtags '-Wl,-rpath,$$ORIGIN/../#{File.basename(File.dirname(shared))}'"
elsif (folder = rust_library)
  $defs << "-DPACELINE_RUST"
  # Nothing of Rust's own is to be seen from outside: another extension may bring the same names.
  $LDFLAGS << " -Wl,--exclude-libs,ALL -Wl,--gc-sections -Wl,--strip-debug" if RbConfig::CONFIG["host_os"].include?("linux")
  $LOCAL_LIBS << " #{File.join(folder, "libpaceline_native.a")} -lpthread -ldl -lm"
else
  # A gem is installed all the same.
  message "paceline: no cargo here that builds ext/rust; XML will be written and read in Ruby, more slowly, and there is no Paceline::PStore\n"
  $srcs = Dir[File.join(__dir__, "*.c")].map { |file| File.basename(file) }.grep_v(NEED_RUST)
end
create_makefile("paceline/paceline_native")
