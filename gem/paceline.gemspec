# frozen_string_literal: true

require_relative "lib/paceline/version"

Gem::Specification.new do |spec|
  spec.name = "paceline"
  spec.version = Paceline::VERSION
  spec.summary = "Web application server for Ruby: a Rust front, preforked Ruby workers"
  spec.description = "Serves Rails, Sinatra and Rack applications: one program in the place of a web server, " \
                     "an application server and a page cache."
  spec.authors = ["The Paceline authors"]
  spec.license = "MIT"
  spec.required_ruby_version = ">= 3.1"
  spec.files = Dir.chdir(__dir__) { Dir["lib/**/*.{rb,tt}", "exe/*", "ext/Rakefile", "ext/paceline_native/*.{rb,c,h}", "ext/rust/{native,xml,store}/Cargo.toml", "ext/rust/{native,xml,store}/src/**/*.rs"] }
  spec.extensions = ["ext/Rakefile"]
  spec.bindir = "exe"
  spec.executables = ["paceline"]
  spec.metadata = { "rubygems_mfa_required" => "true" }
end
