# frozen_string_literal: true

# The native part (ext/paceline_native), if it was built for this Ruby: `Paceline::Native`, or nil. All that it does is also there in
# Ruby, with the same bytes. `PACELINE_NATIVE=0` does without it.
module Paceline
  # Where a checkout keeps it: a folder for each Ruby (bin/native). An installed gem has it beside the Ruby files.
  NATIVE_FOLDERS = ["native/#{RbConfig::CONFIG["ruby_version"]}-#{RbConfig::CONFIG["arch"]}", "."].freeze

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
