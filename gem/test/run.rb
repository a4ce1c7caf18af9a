# frozen_string_literal: true

# Runs every test of the gem: ruby -Igem/lib -Igem/test gem/test/run.rb
#
# With PACELINE_NATIVE=0 without those of shadows, which have nothing native of their own.

# Tests that run in the background ignore these, and so would what is started here.
%w[INT QUIT HUP].each { |name| trap(name, "DEFAULT") }

files = Dir[File.join(__dir__, "**", "*_test.rb")]
files.reject! { |file| file.include?("/server/shadow/") } if ENV["PACELINE_NATIVE"] == "0"
files.sort.each { |file| require file }
