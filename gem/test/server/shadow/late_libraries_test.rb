# frozen_string_literal: true

require_relative "support/shadow_case"
require "paceline/native"
require "pstore" # from Ruby 4.0 on a gem, which has a path only when it is activated

# A library may come at any time and in any way: what it writes with is guarded before anybody can call it. Without the kernel, which would hide what is not.
class ShadowLateLibrariesTest < ShadowCase
  GEM = File.expand_path("../../../lib", __dir__)
  PSTORE = $LOAD_PATH.resolve_feature_path("pstore").last
  # Each loads the library LIB, a path without `.rb`.
  WAYS = {
    "require" => "require(LIB)", "require of Kernel" => "Kernel.require(LIB)", "require by its name" => "method(:require).call(LIB)", "load" => "load(LIB + '.rb')", "load of Kernel" => "Kernel.load(LIB + '.rb')",
    "load into a module" => "load(LIB + '.rb', false)", "require_relative" => "require_relative('lib/relative')", "require_relative by load" => "load(File.join(__dir__, 'lib/relative.rb'))",
    "autoload" => "(Object.autoload(:Lately, File.join(__dir__, 'lib/lately.rb')); Lately)", "autoload of the library" => "(OWNER.autoload(NAME, LIB + '.rb'); OWNER.const_get(NAME))",
    "eval" => "eval(File.read(LIB + '.rb'), TOPLEVEL_BINDING, LIB + '.rb')", "instance_eval" => "Object.new.instance_eval { require LIB }", "compiled" => "RubyVM::InstructionSequence.compile_file(LIB + '.rb').eval",
    "a thread" => "Thread.new { load(LIB + '.rb') }.join"
  }.freeze

  # `owner` and `name`: of its constant.
  def files(lib, owner, name, act)
    routes = WAYS.each_with_index.to_h { |(_, way), number| ["/#{number}", "begin; #{way}; #{act}; rescue SystemCallError => e; e.class.name; end"] }
    {
      "config.ru" => "#{WITHOUT_KERNEL}$VERBOSE = nil\nrequire 'digest'\nLIB = #{lib.inspect}\nOWNER = #{owner}\nNAME = #{name.inspect}\nFILE = File.join(__dir__, 'data')\n#{routes(routes)}",
      "lib/relative.rb" => "require_relative #{relative(lib).inspect}\n", "lib/lately.rb" => "module Lately\n  load #{"#{lib}.rb".inspect}\nend\n"
    }
  end

  # From the file system's root: no folder of the application is above the library.
  def relative(lib) = "#{"../" * 20}#{lib.delete_prefix("/")}"

  # Each way in a shadow of its own, whose library has not come yet.
  def each_way(lib, owner, name, act, data)
    with_front(files(lib, owner, name, act)) do |front, dir|
      assert_equal F::LOADED, front.await_start.type
      File.binwrite(File.join(dir, "data"), data)
      WAYS.each_key.with_index do |way, number|
        shadow = shadow(front, dir)
        yield way, shadow.get("/#{number}")
        shadow.close
        assert_equal data, File.binread(File.join(dir, "data")), way
      end
    end
  end

  # Without its guard it opens the file to write, which is refused even where nothing is changed.
  def test_ruby_s_store
    each_way(PSTORE.delete_suffix(".rb"), Object, :PStore, "PStore.new(FILE).transaction { |s| s[:n] }", Marshal.dump({ n: 7 })) { |way, result| assert_equal ["7", nil], result.values_at("text", "write"), way }
  end

  # Its writing is done in C, where nothing of Ruby's is asked.
  def test_records_of_paceline
    skip "no native part" unless Paceline::Native
    data = Dir.mktmpdir do |dir|
      system({ "RUBYLIB" => GEM }, RbConfig.ruby, "-rpaceline/pstore", "-e", "Paceline::PStore.new(ARGV[0]).transaction { |s| s[:n] = 7 }", File.join(dir, "a"), exception: true)
      File.binread(File.join(dir, "a"))
    end
    each_way(File.join(GEM, "paceline/pstore"), Paceline, :PStore, "Paceline::PStore.new(FILE).transaction { |s| s[:n] += 1 }", data) do |way, result|
      assert_equal ["Errno::EROFS", "file"], [result["text"], result.dig("write", "kind")], "#{way}: #{result["error"]}"
    end
  end

  # What a library does as it is loaded is a request's act, too.
  def test_a_library_that_writes_as_it_is_loaded
    files = { "config.ru" => "#{WITHOUT_KERNEL}$VERBOSE = nil\nrequire 'digest'\nFILE = File.join(__dir__, 'data')\n#{routes("/" => "load(File.join(__dir__, 'lib/counting.rb'))")}",
              "lib/counting.rb" => "require_relative #{relative(PSTORE).inspect}\nPStore.new(FILE).transaction { |s| s[:n] = 1 } rescue nil\n" }
    with_shadow(files) do |shadow, dir|
      assert_equal "data", shadow.get("/").dig("write", "what")
      refute_path_exists File.join(dir, "data")
    end
  end

  # What several files define is guarded when all of it is there. Each is loaded as its gem says.
  LIBRARIES = {
    "sqlite3" => "SQLite3::Database", "pg" => "PG::Connection", "active_record" => "(ActiveRecord::Base && ActiveRecord::ConnectionAdapters::AbstractAdapter)", "mail" => "Mail::Message",
    "net/smtp" => "Net::SMTP", "active_job" => "ActiveJob::Base.singleton_class", "date" => "DateTime.singleton_class", "openssl" => "OpenSSL::Random.singleton_class", "pstore" => "PStore",
    "redis" => "(defined?(RedisClient::RubyConnection) ? RedisClient::RubyConnection : Redis::Client)", "dalli" => "Dalli::Socket::TCP.singleton_class"
  }.freeze

  def test_libraries_of_several_files
    codes = LIBRARIES.to_h { |name, type| ["/#{name}", "begin; require #{name.inspect}; #{type}.ancestors.any? { |one| one.name.to_s.start_with?('Paceline::Server::Shadow::') }; rescue LoadError; 'not here'; end"] }
    with_front({ "config.ru" => "$VERBOSE = nil\n#{routes(codes)}" }) do |front, dir|
      assert_equal F::LOADED, front.await_start.type
      codes.each_key do |path|
        shadow = shadow(front, dir)
        result = shadow.get(path)
        assert_includes ["true", "not here"], result["text"], "#{path}: #{result["error"]}"
        shadow.close
      end
    end
  end

  # Any class of a library, and not only those of Ruby: its guard is there at the end of its definition, and before the file that has it ends.
  def test_guards_come_with_the_class
    files = { "config.ru" => "$VERBOSE = nil\n#{routes("/" => "load(File.join(__dir__, 'lib/queue.rb')); SEEN.inspect")}",
              "lib/queue.rb" => "module Resque\n  def self.push(queue, item) = nil\nend\nSEEN = Resque.singleton_class.ancestors.first.name.to_s\n" }
    with_shadow(files) { |shadow| assert_match(/\A"Paceline::Server::Shadow::Guards::/, shadow.get("/")["text"]) }
  end
end
