# Runs Redmine's integration tests, in the folder of a Redmine that is served there as well: FILES... -- options of Minitest.
require "json"
files, options = ARGV.slice_before("--").to_a
ARGV.replace(options.to_a.drop(1))

require File.join(Dir.pwd, "test/test_helper")
require_relative "twice"

unless ENV["TWICE_SILENT"]
  require "paceline/auto_cache"
  Paceline::AutoCache.announce(root: Dir.pwd)
end
Twice.install
files.each { |file| require file }
