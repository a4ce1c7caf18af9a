# frozen_string_literal: true

# What the server's side of the gem requires. Until Bundler has been set up that is nothing which activates a gem: the app's bundle may have
# another version of it. Later it is what is listed here, from Ruby's standard library or from the app's own bundle.
require "helper"
require "support/requires"

class RequiresTest < Minitest::Test
  ROOT = File.expand_path("../../lib/paceline", __dir__)
  # The front runs these, or the app's owner names them (`rackup -s paceline`).
  ENTRIES = %w[server/preloader.rb server/handler.rb].freeze
  # What has no Ruby half, and so belongs to no gem.
  CORE = %w[rbconfig socket.so].freeze
  COMPUTED = Requires::COMPUTED

  # As a file is loaded; for all of them, what is in CORE.
  AT_LOAD = { "native.rb" => [COMPUTED] }.freeze # the native part
  # When the app is loaded or runs: within methods, and by files that only methods require.
  LATER = {
    "auto_cache/drivers.rb" => ["active_record/connection_adapters/abstract_adapter"],
    "auto_cache/journal.rb" => ["socket"],
    "auto_cache/moments.rb" => ["securerandom"],
    "auto_cache/outside.rb" => ["concurrent/executor/ruby_executor_service", "net/http"],
    "auto_cache/rails.rb" => ["action_dispatch/middleware/cookies", "action_dispatch/request/session"],
    "auto_cache/values.rb" => ["digest"],
    "cache.rb" => ["json"],
    "http/counting.rb" => ["openssl"],
    "server/app_loader.rb" => [COMPUTED, "bundler", "rack", "rack/builder", "sinatra", "sinatra/base", "stringio"],
    "server/preloader.rb" => ["rack", "stringio"],
    "server/puma_config/certificates.rb" => ["localhost"],
    "server/puma_config/dsl.rb" => [COMPUTED, "puma", "puma/configuration", "puma/plugin"],
    "server/puma_config/reading.rb" => [COMPUTED],
    "server/rewindable_input.rb" => ["tempfile"],
    "server/shadow.rb" => ["fileutils", "socket.so"],
    "server/shadow/confinement/system_calls.rb" => ["rbconfig"],
    "server/shadow/conversation.rb" => ["json"],
    "server/shadow/delivery.rb" => ["socket.so"],
    "server/shadow/evidence/postgresql_scan.rb" => ["json"],
    "server/shadow/evidence/visitor.rb" => ["securerandom"],
    "server/shadow/guards/mysql.rb" => ["strscan"],
    "server/shadow/guards/postgresql_statements.rb" => ["strscan"],
    "server/shadow/load.rb" => ["socket.so", "stringio"],
    "server/shadow/outbound.rb" => ["socket.so"],
    "server/shadow/outbound/stand_in.rb" => ["rbconfig"],
    "server/shadow/patches.rb" => [COMPUTED],
    "server/shadow/patches/xml_subclasses.rb" => [COMPUTED],
    "server/shadow/replay.rb" => ["stringio"],
  }.freeze

  def test_server_side_requires_only_what_is_listed
    at_load, later = Hash.new { |all, file| all[file] = [] }, Hash.new { |all, file| all[file] = [] }
    files = walk { |file, name, late| (late ? later : at_load)[file] |= [name] }
    assert_operator files.size, :>, 25, "the server's files are not where this test looks"

    beyond = at_load.transform_values { |names| (names - CORE).sort }.reject { |_, names| names.empty? }
    assert_equal AT_LOAD, beyond, "required before Bundler is set up"
    assert_equal LATER, later.transform_values(&:sort).sort.to_h, "required when the app is loaded or runs"
  end

  def test_loading_the_server_side_activates_no_gem
    code = "before = Gem.loaded_specs.keys; ARGV.each { |file| require file }; puts((Gem.loaded_specs.keys - before).inspect)"
    out, status = Open3.capture2e({ "RUBYOPT" => nil }, RbConfig.ruby, "-e", code, *ENTRIES.map { |file| File.join(ROOT, file) })
    assert_predicate status, :success?, out
    assert_equal "[]\n", out
  end

  def test_requires_are_found_wherever_they_stand
    found = Requires.in('require "a"; x { autoload :B, "b" }; def m = require("c"); def self.n; Kernel.require "d" if e; end; require_relative "#{f}"; load(g)')
    assert_equal [["require", "a", false], ["autoload", "b", false], ["require", "c", true], ["require", "d", true],
                  ["require_relative", COMPUTED, false], ["load", COMPUTED, false]], found
    assert_empty Requires.in(%(# require "a"\nx = "require \\"b\\""; y.load(1); load; { require: 1 }))
  end

  private

  # Yields what each file requires beside the files of the gem, following these; returns their names.
  def walk
    waiting = ENTRIES.map { |file| [file, false] }
    seen = []
    while (file, late = waiting.shift)
      # What is loaded at once comes first, so that no file counts as a late one that is an early one, too.
      next if seen.include?(file)

      seen << file
      Requires.in(File.read(File.join(ROOT, file))).each do |method, name, within_method|
        if method == "require_relative" && name != COMPUTED
          entry = [File.expand_path("#{name}.rb", File.dirname(File.join(ROOT, file))).delete_prefix("#{ROOT}/"), late || within_method]
          entry.last ? waiting.push(entry) : waiting.unshift(entry)
        else
          yield file, name, late || within_method
        end
      end
    end
    seen
  end
end
