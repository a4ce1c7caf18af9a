# frozen_string_literal: true

# Runs every test of the gem: ruby -Igem/lib -Igem/test gem/test/run.rb
Dir[File.join(__dir__, "**", "*_test.rb")].sort.each { |file| require file }
