# Disks on which nothing can be written: from the start, from some moment on, and because they are full. Pages are served, what needs the disk gets a clear
# answer, the log says once which file it is, and what is written again later is whole.
require_relative "../support/scenario"
require_relative "../support/wire"

class ReadOnlyTest < Minitest::Test
  include Scenario

  APP = <<~'RUBY'
    require "rack"
    run(lambda do |env|
      case env["PATH_INFO"]
      when "/kept" then [200, { "cache-control" => "max-age=600" }, [rand.to_s]]
      when "/large" then [200, {}, Enumerator.new { |out| 400.times { |n| out << n.to_s.rjust(8, "0") * 2048 } }]
      else [200, { "content-type" => "text/plain" }, [env["rack.input"].read.bytesize.to_s]]
      end
    end)
  RUBY
  # Whatever may write a file: cookies and pages that are kept, incidents, lines, bodies.
  SETTINGS = <<~TOML
    cache_disk = "8MB"
      response_memory = "64KB"
  TOML
  READ_ONLY = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && cd "$0" && exec "$@"'.freeze
  SMALL = 'mount -t tmpfs -o size=3m,mode=0755 paceline-test "$0" && exec "$@"'.freeze

  def setup
    need_mounts
  end

  def start(disk, mount, *arguments, **options)
    serve(@dir, "-w", "1", "-t", "2", "-e", "production", *arguments, **options,
      within: ["unshare", "-m", "--propagation", "private", "sh", "-c", mount, disk])
  end

  def upload(server, bytes) = server.request(Net::HTTP::Post.new("/").tap { |post| post.body = "x" * bytes })

  def assert_serves(server)
    assert_equal "10", upload(server, 10).body
    first = server.get("/kept").body
    assert_equal first, server.get("/kept").body
    server.connect do |slow|
      slow.write("GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
      assert_equal "10", upload(server, 10).body
      assert_equal 400 * 2048 * 8, Wire.response(slow).body.bytesize
    end
  end

  def test_a_server_of_which_nothing_can_be_written_serves
    @dir = app("config.ru" => APP, "paceline.toml" => SETTINGS, "tmp/.keep" => "")
    server = start(@dir, READ_ONLY, env: { "TMPDIR" => File.join(@dir, "tmp") })

    assert_serves(server)
    answer = upload(server, 4_000_000)
    assert_equal "507", answer.code
    assert_equal [], %w[tmp/paceline.sock: tmp/cache].reject { |path| server.output.match?(/#{path}.*Read-only file system/) }, server.output
    Process.kill(:KILL, server.workers.first)
    assert_serves(server)
    assert_equal 0, server.stop.exitstatus
  end

  def test_a_folder_that_becomes_read_only_costs_only_what_needs_it
    @dir = app("config.ru" => APP, "tmp/.keep" => "")
    server = start(@dir, 'mount --bind "$0" "$0" && cd "$0" && exec "$@"', env: { "TMPDIR" => File.join(@dir, "tmp") })
    assert_equal "4000000", upload(server, 4_000_000).body
    assert system("nsenter", "-t", server.pid.to_s, "-m", "mount", "-o", "remount,bind,ro", @dir)

    assert_serves(server)
    assert_equal "507", upload(server, 4_000_000).code
    server.wait_for(/ 507 .*note="request body could not be spooled: Read-only file system/)
    Process.kill(:KILL, server.workers.first)
    assert_serves(server)
    assert system("nsenter", "-t", server.pid.to_s, "-m", "mount", "-o", "remount,bind,rw", @dir)
    assert_equal "4000000", upload(server, 4_000_000).body
    assert_equal 0, server.stop.exitstatus
  end

  def test_a_full_disk_costs_lines_of_the_log_and_no_answer
    @dir = app("config.ru" => APP)
    disk = app
    write(@dir, "paceline.toml" => SETTINGS + "access_log = \"#{disk}/access.log\"\ncache_dir = \"#{disk}/cache\"\n")
    server = start(disk, SMALL, env: { "TMPDIR" => disk })
    seen = "/proc/#{server.pid}/root#{disk}"
    assert_serves(server)
    File.open("#{seen}/filling", "wb") { |file| loop { file.write("x" * 4096) } } rescue nil
    100.times { |n| server.get("/before?#{n}-#{"x" * 200}") }

    assert_serves(server)
    server.wait_for(/access\.log.*No space left/)
    assert_equal "507", upload(server, 4_000_000).code
    File.delete("#{seen}/filling")
    eventually("lines in the log again") { server.get("/after").code == "200" && File.read("#{seen}/access.log").include?("/after") }
    lines = File.readlines("#{seen}/access.log", chomp: true)
    assert_empty lines.grep_v(/\A\S+ - - \[.*\] "(GET|POST) \S+ HTTP\/1\.1" \d{3} .*cache=\S+/), "torn lines"
    assert_serves(server)
    assert_equal 0, server.stop.exitstatus
    assert_operator server.output.scan(/No space left/).size, :<, 10, "the log says it again and again"
  end
end
