# frozen_string_literal: true

require "helper"
require "paceline/announcing"

# Which processes of a Rails application announce what they write without being told to. Each is a process of its own.
class AutoCacheAnnouncingTest < Paceline::Test
  HERE = %w[rails sqlite3].all? { |name| Gem::Specification.find_all_by_name(name).any? }
  CONSOLE = File.expand_path("support/console.rb", __dir__)
  WATCHED = "[auto_cache]\nmode = \"watch\"\n"

  # A server of the application in a folder: acknowledges each announcement, and keeps its first statement.
  class Front
    attr_reader :heard

    def initialize(dir)
      FileUtils.mkdir_p(File.join(dir, "tmp"))
      @heard = Queue.new
      @server = UNIXServer.new(File.join(dir, "tmp/paceline-journal-#{Process.pid}.sock"))
      @thread = Thread.new { loop { converse(@server.accept) } }
      @thread.report_on_exception = false
    end

    def stop
      @thread.kill.join
      @server.close
    end

    private

    def converse(socket)
      while (head = socket.read(5))
        length, type = head.unpack("NC")
        payload = socket.read(length)
        fields = payload.split("\0")
        heard << [type, fields]
        socket.write([fields.first.bytesize + 1, 0x71].pack("NC"), fields.first, "\0") if [0x61, 0x63].include?(type)
      end
    end
  end

  # What a process of the application says of itself.
  def console(dir, environment: "production", **env)
    skip "Rails is not here" unless HERE
    FileUtils.rm_f(File.join(dir, "shop.sqlite3"))
    variables = { "RAILS_ENV" => environment, "PACELINE_AUTO_CACHE" => nil, **env.transform_keys(&:to_s) }
    out, status = Open3.capture2e(variables, RbConfig.ruby, "-I#{File.expand_path("../../lib", __dir__)}", CONSOLE, chdir: dir)
    assert_predicate status, :success?, out
    out.lines(chomp: true)
  end

  def test_a_process_of_an_application_without_the_cache_loads_nothing
    in_tmpdir("paceline.toml" => "# [auto_cache]\nthreads = 3\n") { |dir| assert_equal ["off", "1 row"], console(dir) }
    in_tmpdir { |dir| assert_equal ["off", "1 row"], console(dir) }
  end

  def test_a_process_beside_a_server_announces_its_writes
    in_tmpdir do |dir|
      front = Front.new(dir)
      assert_equal ["announces", "1 row"], console(dir)
      statements = Array.new(front.heard.size) { front.heard.pop }.filter_map { |type, fields| fields[3] if type == 0x61 }
      assert_equal %w[CREATE INSERT INSERT], statements.map { |sql| sql[/\A\w+/] }, "a table, and rows by a model and by the driver"
    ensure
      front&.stop
    end
  end

  def test_a_process_that_starts_before_the_server
    in_tmpdir("paceline.toml" => WATCHED) { |dir| assert_equal ["announces", "1 row"], console(dir) }
    in_tmpdir do |dir|
      assert_equal ["announces", "1 row"], console(dir, PACELINE_AUTO_CACHE: File.join(dir, "tmp/paceline-journal-1.sock"))
    end
  end

  def test_what_announces_nothing
    in_tmpdir("paceline.toml" => WATCHED) do |dir|
      assert_equal ["off", "1 row"], console(dir, environment: "test")
      assert_equal ["off", "1 row"], console(dir, ANNOUNCE: "false")
      assert_equal ["off", "1 row"], console(dir, OF_SERVER: "1")
    end
  end

  def test_a_developers_schema_is_not_the_servers
    { "development" => false, "production" => true }.each do |environment, tells|
      in_tmpdir do |dir|
        front = Front.new(dir)
        console(dir, environment: environment)
        assert_equal tells, Array.new(front.heard.size) { front.heard.pop.first }.include?(0x64), environment
      ensure
        front&.stop
      end
    end
  end

  SETTINGS = {
    "[auto_cache]" => true, " [ auto_cache ]" => true, "auto_cache = { mode = \"serve\" }" => true, "auto_cache.mode = \"serve\"" => true, "[site.auto_cache]" => true,
    "[\"auto_cache\"]" => true, "# [auto_cache]" => false, "[cache]" => false, "auto_cached = 1" => false, "name = \"auto_cache\"" => false, "\xff = 1" => false
  }.freeze

  def test_settings_that_name_the_cache
    SETTINGS.each do |line, wanted|
      in_tmpdir("paceline.toml" => "threads = 3\n#{line}\n") { |dir| assert_equal wanted, Paceline::Announcing.wanted?(dir), line }
    end
    in_tmpdir { |dir| refute Paceline::Announcing.wanted?(dir) }
  end
end
