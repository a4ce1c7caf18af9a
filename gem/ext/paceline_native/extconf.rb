# frozen_string_literal: true

# The native part of the gem. Optional: without it the same is done in Ruby, more slowly (lib/paceline/native.rb, lib/paceline/xml.rb).
# The XML of it is Rust (ext/xml, linked as a static library): without cargo that part is left out.
require "mkmf"

# The folder of the static library: what `--with-xml-target=DIR` has, if cargo is not here to bring it up to date.
def xml_library
  # In a checkout it is a link into the workspace.
  crate = File.realpath("../xml", __dir__)
  target = with_config("xml-target") || File.join(Dir.pwd, "xml-target")
  cargo = find_executable("cargo") || [File.expand_path("~/.cargo/bin/cargo")].find { |file| File.executable?(file) }
  if cargo
    env = { "CARGO_TARGET_DIR" => target, "CARGO_PROFILE_RELEASE_DEBUG" => "0", "CARGO_PROFILE_RELEASE_LTO" => "fat",
            "CARGO_PROFILE_RELEASE_CODEGEN_UNITS" => "1", "RUSTFLAGS" => nil }
    built = system(env, cargo, "rustc", "--quiet", "--release", "--lib", "--crate-type", "staticlib", "--manifest-path", File.join(crate, "Cargo.toml"))
    return unless built
  end
  folder = File.join(target, "release")
  folder if File.file?(File.join(folder, "libpaceline_xml.a"))
end

$CFLAGS << " -O3 -fvisibility=hidden -Wall -Wextra -Wno-unused-parameter"
if (folder = xml_library)
  $defs << "-DPACELINE_XML"
  # Nothing of Rust's own is to be seen from outside: another extension may bring the same names.
  $LDFLAGS << " -Wl,--exclude-libs,ALL -Wl,--gc-sections -Wl,--strip-debug" if RbConfig::CONFIG["host_os"].include?("linux")
  $LOCAL_LIBS << " #{File.join(folder, "libpaceline_xml.a")} -lpthread -ldl -lm"
else
  message "paceline: no cargo here that builds ext/xml; XML will be written and read in Ruby, more slowly\n"
  $srcs = Dir[File.join(__dir__, "*.c")].map { |file| File.basename(file) }.grep_v(/\Axml_/)
end
create_makefile("paceline/paceline_native")
