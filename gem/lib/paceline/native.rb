# frozen_string_literal: true

# The native part (ext/paceline_native), if it was built for this Ruby: `Paceline::Native`, or nil. All that it does is also there in
# Ruby, with the same bytes. `PACELINE_NATIVE=0` does without it.
module Paceline
  # Where it is kept: a folder for each Ruby, of a checkout (bin/native) and of the gem for a platform, which fits x86_64-linux and
  # Debian's name for that, x86_64-linux-gnu. A gem that was compiled when it was installed has it beside the Ruby files.
  NATIVE_FOLDERS = [RbConfig::CONFIG["arch"], RbConfig::CONFIG["arch"].delete_suffix("-gnu")].uniq
                                                                                         .map { |arch| "native/#{RbConfig::CONFIG["ruby_version"]}-#{arch}" }
                                                                                         .push(".").freeze

  NATIVE_FILE = NATIVE_FOLDERS.map { |folder| File.expand_path("#{folder}/paceline_native.#{RbConfig::CONFIG["DLEXT"]}", __dir__) }
                              .find { |file| File.file?(file) }
  private_constant :NATIVE_FOLDERS, :NATIVE_FILE

  begin
    require NATIVE_FILE if NATIVE_FILE && ENV["PACELINE_NATIVE"] != "0"
  rescue LoadError => e
    warn "paceline: #{NATIVE_FILE} does not fit this Ruby (#{e.message}); continuing without it"
  end
  Native = nil unless const_defined?(:Native)
end
