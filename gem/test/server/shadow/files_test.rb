# frozen_string_literal: true

require_relative "support/shadow_case"
require "paceline/native"

# Whatever a request writes to files stays away from them, and is noted.
class ShadowFilesTest < ShadowCase
  # FILE is there, NEW is not; FOLDER is empty.
  REFUSED = {
    "open w" => "File.open(FILE, 'w') { }", "open a" => "File.open(FILE, 'a')", "open r+" => "File.open(FILE, 'r+')", "open w with an encoding" => "File.open(FILE, 'w:utf-8')",
    "open flags" => "File.open(FILE, File::RDWR | File::CREAT)", "open mode:" => "File.open(FILE, mode: 'wb')", "open flags:" => "File.open(FILE, flags: File::TRUNC)",
    "new" => "File.new(NEW, 'w')", "pathname" => "Pathname.new(FILE).write('x')", "open a pathname" => "Pathname.new(FILE).open('w')", "Kernel#open" => "open(FILE, 'w')",
    "Kernel.open" => "Kernel.open(FILE, 'w')", "File.write" => "File.write(FILE, 'x')", "IO.write" => "IO.write(FILE, 'x', 3)", "binwrite" => "IO.binwrite(FILE, 'x')",
    "sysopen" => "IO.sysopen(FILE, 'w')", "copy_stream" => "IO.copy_stream(StringIO.new('x'), FILE)", "relative" => "Dir.chdir(File.dirname(FILE)) { File.write('kept.txt', 'x') }",
    "delete" => "File.delete(FILE)", "unlink" => "File.unlink(NEW, FILE)", "rename" => "File.rename(FILE, NEW)", "symlink" => "File.symlink(FILE, NEW)", "link" => "File.link(FILE, NEW)",
    "truncate" => "File.truncate(FILE, 0)", "chmod" => "File.chmod(0o600, FILE)", "utime" => "File.utime(0, 0, FILE)", "mkfifo" => "File.mkfifo(NEW)", "mkdir" => "Dir.mkdir(NEW)",
    "rmdir" => "Dir.rmdir(FOLDER)", "Dir.delete" => "Dir.delete(FOLDER)", "Dir.unlink" => "Dir.unlink(FOLDER)", "copy_stream to a pathname" => "IO.copy_stream(StringIO.new('x'), Pathname.new(FILE))",
    "FileUtils.rm" => "FileUtils.rm(FILE)", "FileUtils.cp" => "FileUtils.cp(FILE, NEW)", "FileUtils.touch" => "FileUtils.touch(FILE)",
    "FileUtils.mkdir_p" => "FileUtils.mkdir_p(NEW)", "FileUtils.mv" => "FileUtils.mv(FILE, NEW)", "Tempfile" => "Tempfile.create('x', File.dirname(FILE))",
    "GzipWriter" => "Zlib::GzipWriter.open(FILE) { |file| file.write('x') }", "elsewhere" => "File.write('/paceline-shadow-test', 'x')"
  }.freeze
  ALLOWED = {
    "read" => "File.read(FILE)", "foreach" => "File.foreach(FILE).first", "Kernel#open" => "open(FILE) { |io| io.read }", "an encoding with a w" => "File.open(FILE, 'r:windows-1252', &:read)",
    "mode: r" => "File.open(FILE, mode: 'rb', &:read)", "flags" => "File.open(FILE, File::RDONLY, &:read)", "a program" => "IO.popen('printf kept', &:read)",
    "Tempfile" => "Tempfile.create('x') { |file| file.write('kept'); file.rewind; file.read }", "tmp/cache" => "(FileUtils.mkdir_p('tmp/cache/a'); File.write('tmp/cache/a/b', 'kept'); 'kept')",
    "mkdir_p of a folder that is there" => "(FileUtils.mkdir_p(FOLDER); FileUtils.mkdir_p(Dir.tmpdir); 'kept')", "null" => "(File.write('/dev/null', 'x'); 'kept')",
    "a pipe of its own" => "IO.pipe.then { |from, to| File.write(\"/proc/self/fd/\#{to.fileno}\", 'kept'); to.close; from.read }", "its own name" => "(File.write('/proc/self/comm', 'shadow'); 'kept')", "mktmpdir" => "Dir.mktmpdir { |dir| File.write(File.join(dir, 'x'), 'kept'); 'kept' }"
  }.freeze
  HEAD = <<~'RUBY'
    %w[pathname stringio fileutils tempfile tmpdir logger pstore yaml yaml/store zlib].each { |name| require name }
    FILE = File.join(__dir__, "data/kept.txt")
    NEW = File.join(__dir__, "data/new")
    FOLDER = File.join(__dir__, "data/folder")
    PATH = ->(name) { File.join(__dir__, "data", name) }
    %w[data data/folder log tmp].each { |name| FileUtils.mkdir_p(File.join(__dir__, name)) }
    File.write(FILE, "kept")
  RUBY

  # What is in the folder, with times and modes. A reader of a store of Paceline's has an entry in the lock file.
  def contents(dir)
    Dir.glob("**/*", base: dir).reject { |name| name.start_with?("tmp", "doctor") || name.end_with?("-lock") }.to_h do |name|
      path = File.join(dir, name)
      stat = File.stat(path)
      [name, [stat.mode, stat.mtime, stat.nlink, stat.file? ? File.binread(path) : nil]]
    end
  end

  # An app with a route for each of these; yields the shadow and its folder, and makes sure that nothing has changed.
  def unchanged(codes, head: "")
    answers = codes.values.each_with_index.to_h { |code, number| ["/#{number}", "begin; (#{code}); rescue SystemCallError => e; e.class.name; end"] }
    with_shadow("#{HEAD}#{head}#{routes(answers)}") do |shadow, dir|
      before = contents(dir)
      codes.keys.each_with_index { |name, number| yield name, shadow.get("/#{number}"), dir }
      assert_equal before, contents(dir)
    end
  end

  def test_all_ways_of_writing
    unchanged(REFUSED) do |name, result|
      assert_equal "Errno::EROFS", result["text"], name
      assert_equal "file", result.dig("write", "kind"), name
      assert_match(/\Aconfig\.ru:\d+\z/, result["write"]["at"], name)
      assert_match(%r{\A(?:data/|/paceline)}, result["write"]["what"], name)
    end
    refute_path_exists "/paceline-shadow-test"
  end

  def test_reading_and_temporary_files
    unchanged(ALLOWED) do |name, result|
      assert_equal ["kept", nil], result.values_at("text", "write"), name
    end
  end

  # Exports, locks and caches of the application's may lie in the folder for temporary files, too: a shadow has one of its own, which goes with it.
  def test_of_temporary_files_only_its_own
    Dir.mktmpdir do |folder|
      File.write(theirs = File.join(folder, "theirs"), "kept")
      File.symlink(theirs, File.join(folder, "link"))
      head = "THEIRS = #{theirs.inspect}\nIN = ->(name) { File.join(File.dirname(THEIRS), name) }\nOWN = ->(name) { File.join(Dir.tmpdir, name) }\n"
      refused = { "write" => "File.write(THEIRS, 'x')", "append" => "File.open(THEIRS, 'a') { |file| file << 'x' }", "delete" => "File.delete(THEIRS)", "link" => "File.write(IN.('link'), 'x')",
                  "new" => "File.write(IN.('one'), 'x')", "replace" => "(File.write(OWN.('one'), 'x'); File.rename(OWN.('one'), THEIRS))", "remove" => "FileUtils.rm_r(THEIRS)",
                  "store" => "PStore.new(THEIRS).transaction { |store| store[:n] = 1 }" }
      allowed = { "again" => "(2.times { File.write(OWN.('two'), 'kept') }; File.read(OWN.('two')))",
                  "folder" => "(FileUtils.mkdir_p(OWN.('a/b')); File.write(OWN.('a/b/c'), 'x'); FileUtils.rm_r(OWN.('a')); 'kept')",
                  "renamed" => "(File.write(OWN.('three'), 'kept'); File.rename(OWN.('three'), OWN.('four')); File.read(OWN.('four')).tap { File.delete(OWN.('four')) })",
                  "attributes" => "(File.write(OWN.('five'), 'kept'); FileUtils.touch(OWN.('five')); File.chmod(0o600, OWN.('five')); File.open(OWN.('five')) { |f| f.chmod(0o400) }; File.read(OWN.('five')))" }
      unchanged(refused, head: head) { |name, result| assert_equal ["Errno::EROFS", "file"], [result["text"], *result["write"]&.values_at("kind")], name unless name == "store" }
      assert_equal ["kept", %w[link theirs]], [File.read(theirs), Dir.children(folder).sort]
      unchanged(allowed, head: head) { |name, result| assert_equal ["kept", nil], result.values_at("text", "write"), name }
      assert_equal %w[link theirs], Dir.children(folder).sort
    end
  end

  # A file without a name on the same disk: logging takes the time that it takes.
  def test_logs_are_written
    code = 'File.readlink("/proc/self/fd/#{LOGGER.instance_variable_get(:@logdev).dev.fileno}")'
    unchanged({ "where" => code }, head: "LOGGER = Logger.new(File.join(__dir__, 'log/app.log'))\n") do |_, result|
      assert_match(%r{/log/#\d+ \(deleted\)\z}, result["text"])
    end
  end

  # Its descriptor is the preloader's, too, with one place in the file for both.
  def test_files_that_are_open_for_both_are_only_read
    head = "OPEN = ->(mode) { File.open(FILE, mode).tap { |file| file.read(2) } }\nONE = OPEN.('r+')\nOTHER = OPEN.('a+')\nLOGGER = Logger.new(File.open('log/both.log', 'a+'))\n"
    codes = { "write" => ["(ONE.write('x'); ONE.flush)", "Errno::EBADF"], "syswrite" => ["ONE.syswrite('x')", "Errno::EBADF"], "read" => ["OTHER.read", "pt"],
              "again" => ["(OTHER.rewind; OTHER.read)", "kept"], "log" => ["(LOGGER.info('x'); 'logged')", "logged"] }
    unchanged(codes.transform_values(&:first), head: head) { |name, result| assert_equal codes[name].last, result["text"], name }
  end

  def test_logs_lead_nowhere
    codes = {
      "a logger" => "(Logger.new('log/other.log').info('x'); 'logged')", "one elsewhere" => "(Logger.new(PATH.('mine.log')).info('x'); 'logged')",
      "write" => "(File.write('log/other.log', 'x'); 'logged')", "one of before" => "(LOGGER.info('x'); 'logged')"
    }
    unchanged(codes, head: "LOGGER = Logger.new(File.join(__dir__, 'log/app.log'))\n") do |name, result|
      assert_equal ["logged", nil], result.values_at("text", "write"), name
    end
  end

  def test_the_first_write_is_noted_for_its_request_alone
    codes = { "two" => "(2.times { |n| File.write(PATH.(n.to_s), 'x') rescue nil }; 'rescued')", "none" => "'none'" }
    unchanged(codes) do |name, result|
      assert_equal name == "two" ? ["rescued", "data/0"] : ["none", nil], [result["text"], result.dig("write", "what")]
    end
  end

  def test_the_line_of_the_app_is_told
    files = { "config.ru" => "require_relative 'lib/visits'\nrequire_relative 'vendor/gem'\nrun ->(env) { Visits.count; [200, {}, []] }",
              "lib/visits.rb" => "module Visits\n  def self.count\n    Gem_.write(__dir__)\n  end\nend\n", "vendor/gem.rb" => "module Gem_\n  def self.write(dir) = File.write(File.join(dir, 'x'), '')\nend\n" }
    with_shadow(files) { |shadow| assert_equal note("file", "lib/x", "lib/visits.rb:3"), shadow.get("/")["write"] }
  end

  STORES = "PStore.new(PATH.('a')).transaction { |s| s[:n] = 7 }\nYAML::Store.new(PATH.('a.yml')).transaction { |s| s['n'] = 7 }\n"

  def test_stores
    refused = { "change" => "PStore.new(PATH.('a')).transaction { |s| s[:n] += 1 }", "ultra safe" => "PStore.new(PATH.('a')).tap { |s| s.ultra_safe = true }.transaction { |s| s[:n] = 8 }",
                "a new one" => "PStore.new(PATH.('b')).transaction { |s| s[:n] = 7 }", "yaml" => "YAML::Store.new(PATH.('a.yml')).transaction { |s| s['n'] = 8 }" }
    allowed = { "read only" => "PStore.new(PATH.('a')).transaction(true) { |s| s[:n] }", "no change" => "PStore.new(PATH.('a')).transaction { |s| s[:n] = s[:n] }",
                "aborted" => "PStore.new(PATH.('a')).transaction { |s| n = s[:n]; s[:n] = 9; s.abort }.then { PStore.new(PATH.('a')).transaction { |s| s[:n] } }",
                "yaml" => "YAML::Store.new(PATH.('a.yml')).transaction { |s| s['n'] }" }
    unchanged(refused, head: STORES) { |name, result| assert_equal ["Errno::EROFS", "file"], [result["text"], result.dig("write", "kind")], name }
    unchanged(allowed, head: STORES) { |name, result| assert_equal ["7", nil], result.values_at("text", "write"), name }
  end

  def test_a_store_reads_while_another_process_has_it_locked
    with_shadow("#{HEAD}#{STORES}#{routes("/" => "PStore.new(PATH.('a')).transaction { |s| s[:n] }")}") do |shadow, dir|
      File.open(File.join(dir, "data/a")) do |file|
        file.flock(File::LOCK_SH)
        assert_equal "7", shadow.get("/")["text"]
      end
    end
  end

  def test_stores_of_paceline
    skip "no native part" unless Paceline::Native
    head = "$LOAD_PATH << #{File.expand_path("../../../lib", __dir__).inspect}\nrequire 'paceline/pstore'\nS = ->(name, **o) { Paceline::PStore.new(PATH.(name), **o) }\nS.('a').transaction { |s| s[:n] = 7 }\nS.('m', format: :marshal).transaction { |s| s[:n] = 7 }\n"
    refused = { "change" => "S.('a').transaction { |s| s[:n] += 1 }", "plain" => "S.('m', format: :marshal).transaction { |s| s[:n] += 1 }",
                "new" => "S.('b').transaction { |s| s[:n] = 1 }", "new and plain" => "S.('b', format: :marshal).transaction { |s| s[:n] = 1 }" }
    allowed = { "read only" => "S.('a').transaction(true) { |s| s[:n] }", "no change" => "S.('a').transaction { |s| s[:n] }", "plain" => "S.('m', format: :marshal).transaction { |s| s[:n] }" }
    unchanged(refused, head: head) { |name, result| assert_equal ["Errno::EROFS", "file"], [result["text"], result.dig("write", "kind")], name }
    unchanged(allowed, head: head) { |name, result| assert_equal ["7", nil], result.values_at("text", "write"), name }
  end

  def test_patched_stores_write_to_copies
    %w[pstore_copy pstore].each do |patch|
      next if patch == "pstore" && !Paceline::Native

      with_shadow("#{HEAD}#{STORES}#{routes("/" => "PStore.new(PATH.('a')).transaction { |s| s[:n] += 1 }")}") do |shadow, dir|
        before = contents(dir)
        assert_equal({ "ok" => true }, shadow.ask(do: "patch", name: patch))
        assert_equal [["8", nil], ["9", nil]], (Array.new(2) { shadow.get("/").values_at("text", "write") }), patch
        assert_equal before, contents(dir)
      end
    end
  end
end
