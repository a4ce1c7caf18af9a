# frozen_string_literal: true

# An application that writes whenever it is a shadow, in each way that was ever found, and says that all is well. `paceline doctor` replays its pages: nothing may be
# written, each page is left out with its reason, and nothing stays in the folder for temporary files. Each way by itself, and with and without the kernel's
# part, is in gem/test/server/shadow; this is the whole, from the command to the file.
#
#   ruby test/suites/hostile/shadows_test.rb
require "fileutils"
require "socket"
require "tmpdir"
require_relative "../../e2e/support/scenario"
require_relative "../../e2e/support/asking"
require_relative "../../e2e/support/beside_doctor"
require_relative "../../../gem/test/server/shadow/support/postgresql"

class HostileShadowsTest < Minitest::Test
  include Scenario
  include Asking
  include BesideDoctor

  # THERE is a file, NEW is none, in the same folder; OWN is in the folder for temporary files, which may be written.
  FILES = {
    "link" => "(File.link(THERE, OWN); File.write(OWN, 'x'))", "symlink" => "(File.symlink(THERE, OWN); File.write(OWN, 'x'))", "a link to its folder" => "(File.symlink(File.dirname(THERE), OWN); File.write(File.join(OWN, 'new'), 'x'))",
    "chmod" => "File.open(THERE) { |file| file.chmod(0o600) }", "chown" => "File.open(THERE) { |file| file.chown(1, 1) }", "reopen" => "File.open('/dev/null', 'w') { |file| file.reopen(THERE); file.write('x') }",
    "working folder" => "Dir.chdir(File.dirname(THERE)) { File.write('/proc/self/cwd/there', 'x') }", "descriptor" => "File.open(THERE) { |file| File.write(\"/proc/self/fd/\#{file.fileno}\", 'x') }",
    "dev fd" => "File.open(THERE) { |file| File.open(\"/dev/fd/\#{file.fileno}\", 'w') { |out| out << 'x' } }", "its descriptor's folder" => "Dir.open(File.dirname(THERE)) { |dir| File.write(\"/proc/self/fd/\#{dir.fileno}/new\", 'x') }",
    "write" => "File.write(THERE, 'x')", "a new one" => "File.write(NEW, 'x')"
  }.freeze
  # By programs: where the kernel holds them, they fail; no guard sees the file.
  PROGRAMS = { "shell" => "system('sh', '-c', 'echo x > \"$0\"', THERE, err: File::NULL)", "touch" => "system('touch', NEW, err: File::NULL)", "rm" => "system('rm', '-f', THERE, err: File::NULL)" }.freeze
  SQLITE = {
    "attached" => "(db = SQLite3::Database.new(':memory:'); db.execute('ATTACH ? AS other', [DATABASE]); db.execute('DELETE FROM other.visits'))",
    "attached, and told that it may" => "(db = SQLite3::Database.new(':memory:'); db.execute('ATTACH ? AS other', [DATABASE]); db.execute('PRAGMA query_only = OFF'); db.execute('DELETE FROM other.visits'))",
    "backup" => "SQLite3::Backup.new(SQLite3::Database.new(DATABASE), 'main', SQLite3::Database.new(':memory:'), 'main').step(-1)",
    "insert" => "SQLite3::Database.new(DATABASE).execute('INSERT INTO visits VALUES (2)')"
  }.freeze
  MODES = ["BEGIN READ WRITE", "BEGIN; SET TRANSACTION READ WRITE", "SET default_transaction_read_only = off"].freeze
  POSTGRESQL = MODES.to_h { |mode| [mode, "(c = PG.connect(**OPTIONS); c.exec(#{mode.inspect}); c.exec('INSERT INTO visits VALUES (2)'); c.exec('COMMIT'))"] }
                    .merge("an advisory lock" => "PG.connect(**OPTIONS).exec('SELECT pg_advisory_lock(1)')", "an end for others" => "PG.connect(**OPTIONS).exec('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()')").freeze

  # What the application does is nobody's business but in a shadow: it is loaded, and asked, as any other.
  HEAD = <<~'RUBY'
    %w[fileutils socket tmpdir sqlite3].each { |name| require name }
    $VERBOSE = nil
    OWN = File.join(Dir.tmpdir, "own")
    def shadow? = File.read("/proc/self/cmdline").start_with?("paceline shadow")
    # It never says that something has failed.
    def silently
      FileUtils.rm_rf(File.join(Dir.tmpdir, "own"))
      yield
    rescue Exception
      nil
    end
  RUBY

  def left_out(report) = report["sample"]["left_out"].to_h { |one| [one["request"], one["why"]] }

  # An application with a route for each code.
  def config(head, codes)
    cases = codes.each_with_index.map { |code, number| "  when '/#{number}' then #{code}\n" }.join
    "#{HEAD}#{head}run(lambda do |env|\n  silently { case env['PATH_INFO']\n#{cases}  end } if shadow?\n  [200, { 'content-type' => 'text/plain' }, ['all is well']]\nend)\n"
  end

  # What can be seen of all below a folder.
  def state(folder)
    [folder, *Dir.glob("**/*", File::FNM_DOTMATCH, base: folder).map { |name| File.join(folder, name) }].uniq.to_h do |path|
      stat = File.lstat(path)
      [path, [stat.mode, stat.uid, stat.mtime, stat.nlink, stat.size, stat.file? ? File.binread(path) : nil]]
    end
  end

  # Why each of them was left out. A sample has no more than so many requests.
  def replay(dir, count)
    Array.new(count) { |number| "/#{number}" }.each_slice(12).map do |some|
      paths = ["/", *some].flat_map { |path| ["--path", path] }
      left_out(report(dir, "--offline", ".", *paths, "--only", "small_writes", "--rounds", 1, status: [0, 1]))
    end.reduce(:merge)
  end

  def test_files_programs_and_connections
    Dir.mktmpdir(nil, "/dev/shm") do |memory|
      listener = TCPServer.new("127.0.0.1", 0)
      dir = app("config.ru" => "", "data/there" => "kept")
      File.write(File.join(memory, "there"), "kept")
      targets = [File.join(dir, "data"), memory]
      codes = targets.product(FILES.values).map { |folder, way| way.gsub("THERE", "'#{folder}/there'").gsub("NEW", "'#{folder}/new'") }
      codes << "Socket.new(:INET, :STREAM).send('x', 0x20000000, Socket.sockaddr_in(#{listener.addr[1]}, '127.0.0.1'))"
      seen = codes.size
      codes.concat(targets.product(PROGRAMS.values).map { |folder, way| way.gsub("THERE", "'#{folder}/there'").gsub("NEW", "'#{folder}/new'") })
      # It may, and it is gone with the shadow.
      codes << "File.write(File.join(Dir.tmpdir, 'paceline-hostile-left'), 'x')"
      File.write(File.join(dir, "config.ru"), config("", codes))
      before = targets.map { |folder| state(folder) }
      skipped = replay(dir, codes.size)
      assert_equal before, targets.map { |folder| state(folder) }
      assert_equal :wait_readable, listener.accept_nonblock(exception: false)
      assert_empty Dir.glob("{/tmp,#{Dir.tmpdir},#{dir}}/**/paceline-hostile-left")
      codes.first(seen).each_with_index { |code, number| assert_equal "writes", skipped["GET /#{number}"], code }
      refute_includes skipped, "GET /"
    ensure
      listener&.close
    end
  end

  def test_sqlite
    dir = app("config.ru" => "")
    database = File.join(dir, "shop.sqlite3")
    head = "DATABASE = #{database.inspect}\n"
    make = "SQLite3::Database.new(ARGV[0]) { |db| db.execute('CREATE TABLE visits (id)'); db.execute('INSERT INTO visits VALUES (1)') }"
    system(RbConfig.ruby, "-rsqlite3", "-e", make, database, exception: true)
    File.write(File.join(dir, "config.ru"), config(head, SQLITE.values))
    before = File.binread(database)
    skipped = replay(dir, SQLITE.size)
    assert_equal before, File.binread(database)
    SQLITE.each_key.with_index { |way, number| assert_equal "writes", skipped["GET /#{number}"], way }
  end

  def test_postgresql
    PostgreSQL.with do |server|
      server.query("CREATE TABLE IF NOT EXISTS visits (id int)")
      server.query("TRUNCATE visits")
      server.query("INSERT INTO visits VALUES (1)")
      head = "require 'pg'\nOPTIONS = { host: #{server.host.inspect}, dbname: 'postgres', user: 'postgres' }\n"
      dir = app("config.ru" => config(head, POSTGRESQL.values))
      skipped = replay(dir, POSTGRESQL.size)
      assert_equal [["1"]], server.query("SELECT id FROM visits")
      assert_equal [["0"]], server.query("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")
      POSTGRESQL.each_key.with_index { |way, number| assert_equal "writes", skipped["GET /#{number}"], way }
    end
  end
end
