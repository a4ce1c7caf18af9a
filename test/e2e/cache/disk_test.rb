# What the page cache keeps on disk: there after a restart and after a crash, within its bound, never damaged, never after its purge.
require_relative "../support/scenario"
require_relative "../support/origin"
require_relative "../support/wire"
require "digest"

class CacheDiskTest < Minitest::Test
  include Scenario

  FILE = "tmp/cache/paceline/data.mdb"

  def setup
    super
    @asked = []
    @pages = Hash.new { |_, path| ["Cache-Control: max-age=3600\r\n", "page #{path}"] }
    @origin = Origin.new do |link, _|
      while (head = link.head)
        link.body(head)
        method, path = head.line.split
        @asked << "#{method} #{path}"
        fields, body = method == "GET" ? page(path, head) : ["", "done"]
        link.write("HTTP/1.1 200 OK\r\nContent-Length: #{body.bytesize}\r\n#{fields}\r\n#{body}")
      end
    end
    @dir = app
    start
  end

  def teardown
    super
    @origin.close
  end

  def page(path, head)
    found = @pages[path]
    found.respond_to?(:call) ? found.call(head) : found
  end

  def start(disk: "8MB", more: "", rules: "", dir: @dir)
    write(dir, "paceline.toml" => "front_threads = 1\ncache_disk = \"#{disk}\"\n#{more}\n[[site]]\nupstream = \"#{@origin.url}\"\n#{rules}")
    @server = serve(dir, ready: false)
  end

  def wire(...) = @server.wire(...)

  def get(path, fields = "") = wire("GET #{path} HTTP/1.1\r\nHost: shop.test\r\n#{fields}\r\n")

  def post(path) = wire("POST #{path} HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 0\r\n\r\n", to: "POST")

  # What was stored before is on disk when a purge that came after it is: a request that changes something waits for that.
  def written = post("/barrier")

  def restart(with: :TERM, **options)
    written
    if with == :KILL
      @server.kill
    else
      @server.stop
    end
    yield if block_given?
    @asked.clear
    start(**options)
  end

  def assert_hit(path, body, fields = "")
    response = get(path, fields)
    assert_equal body.b, response.body.b
    assert_match(/\Apaceline; hit/, response["cache-status"])
  end

  def file = File.join(@dir, FILE)

  def test_hit_after_a_restart_and_after_a_crash
    get("/a")
    get("/a")
    %i[TERM KILL].each do |signal|
      restart(with: signal)
      assert_hit("/a", "page /a")
      assert_hit("/a", "page /a", "If-None-Match: \"x\"\r\n")
      assert_empty @asked
    end
  end

  def test_files_are_the_servers_own
    assert_equal 0o700, File.stat(File.dirname(file)).mode & 0o777
    Dir[File.join(File.dirname(file), "*")].each { |path| assert_equal 0o600, File.stat(path).mode & 0o777, path }
  end

  def test_age_goes_on_and_what_is_stale_is_validated
    @pages["/old"] = ["Cache-Control: max-age=1000\r\nAge: 90\r\n", "old"]
    @pages["/stale"] = lambda do |head|
      @condition = head["if-none-match"]
      ["Cache-Control: max-age=0\r\nETag: \"1\"\r\n", "stale"]
    end
    get("/old")
    get("/stale")
    assert_nil @condition
    restart
    assert_operator Integer(get("/old")["age"]), :>=, 90
    get("/stale")
    assert_equal "\"1\"", @condition
    assert_equal ["GET /stale"], @asked
  end

  def test_variants
    @pages["/v"] = ->(head) { ["Cache-Control: max-age=3600\r\nVary: Accept-Language\r\n", "in #{head["accept-language"]}"] }
    %w[en de fr].each { |language| get("/v", "Accept-Language: #{language}\r\n") }
    restart
    %w[fr en de].each { |language| assert_hit("/v", "in #{language}", "Accept-Language: #{language}\r\n") }
    assert_empty @asked
    assert_equal "in es", get("/v", "Accept-Language: es\r\n").body
  end

  def test_a_change_drops_what_is_on_disk
    get("/a")
    get("/b")
    post("/a")
    restart(with: :KILL)
    get("/a")
    assert_hit("/b", "page /b")
    assert_equal ["GET /a"], @asked
    # What only the disk has is dropped, too.
    restart
    post("/b")
    restart(with: :KILL)
    get("/b")
    assert_equal ["GET /b"], @asked
  end

  def test_groups_that_an_answer_invalidates
    @pages["/g"] = ["Cache-Control: max-age=3600\r\nCache-Groups: \"news\"\r\n", "of a group"]
    get("/g")
    restart
    get("/other")
    invalidating = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nCache-Group-Invalidation: \"news\"\r\n\r\n"
    answers = Origin.new { |link, _| link.write(invalidating) while link.head }
    @server.stop
    origin, @origin = @origin, answers
    start
    post("/change")
    @origin = origin
    answers.close
    @server.kill
    @asked.clear
    start
    get("/g")
    assert_hit("/other", "page /other")
    assert_equal ["GET /g"], @asked
  end

  # Some are met in memory, some on disk alone; after a crash all of them are still purged.
  def test_purges_by_command
    restart(more: "control = \"run.sock\"\n")
    (1..8).each { |n| @pages["/p/#{n}"] = ["Cache-Control: max-age=3600\r\nSurrogate-Key: k#{n}\r\nETag: \"#{n}\"\r\n", "page #{n}"] }
    @pages["/q"] = ["Cache-Control: max-age=3600\r\n", "kept"]
    [*(1..8).map { |n| "/p/#{n}" }, "/q"].each { |path| get(path) }
    purge("http://shop.test/p/1", 1)
    purge("--tag", "k2", 1)
    restart(with: :KILL, more: "control = \"run.sock\"\n")
    purge("http://shop.test/p/3", 1)
    purge("--tag", "k4", 1)
    purge("--tag", "k5", "--soft", 1)
    @server.kill
    @asked.clear
    start(more: "control = \"run.sock\"\n")
    (1..8).each { |n| get("/p/#{n}") }
    assert_equal (1..5).map { |n| "GET /p/#{n}" }, @asked
    purge("--prefix", "http://shop.test/p/", 8)
    @server.kill
    @asked.clear
    start(more: "control = \"run.sock\"\n")
    assert_hit("/q", "kept")
    get("/p/8")
    assert_equal ["GET /p/8"], @asked
    written
    assert_includes command("cache", "stats"), "on disk: 2 responses in "
    purge("--all", 2)
    @server.kill
    start
    get("/q")
    assert_equal ["GET /p/8", "POST /barrier", "GET /q"], @asked
  end

  def command(*arguments)
    out = IO.popen([BIN, *arguments, chdir: @dir, err: %i[child out]], &:read)
    assert_predicate $?, :success?, out
    out
  end

  def purge(*arguments, count)
    assert_equal "#{count} response#{"s" if count > 1} purged\n", command("purge", *arguments)
  end

  def test_what_may_not_be_stored_any_more_goes
    get("/a")
    @pages["/a"] = ["Cache-Control: no-store\r\n", "secret"]
    get("/a", "Cache-Control: no-cache\r\n")
    restart(with: :KILL)
    assert_equal "secret", get("/a").body
  end

  def test_what_is_replaced_is_replaced
    get("/a")
    @pages["/a"] = ["Cache-Control: max-age=3600\r\n", "newer"]
    get("/a", "Cache-Control: no-cache\r\n")
    restart(with: :KILL)
    assert_hit("/a", "newer")
  end

  # 5 times as much as there may be.
  def test_the_bound_holds
    noise = Random.new(1)
    bodies = (0...400).to_h { |n| ["/#{n}", noise.bytes(100_000 + n)] }
    bodies.each { |path, body| @pages[path] = ["Cache-Control: max-age=3600\r\n", body] }
    @pages["/huge"] = ["Cache-Control: max-age=3600\r\n", noise.bytes(3 << 20)]
    biggest = 0
    bodies.each_key.each_slice(25) do |paths|
      paths.each { |path| get(path) }
      get("/huge", "Cache-Control: no-cache\r\n")
      written
      biggest = [biggest, Dir[File.join(File.dirname(file), "*")].sum { |path| File.stat(path).blocks * 512 }].max
    end
    assert_operator biggest, :<=, (8 << 20) + (64 << 10)
    assert_operator biggest, :>, 4 << 20
    restart(with: :KILL)
    # The last ones first: what is asked for and not there pushes out the oldest.
    hits = bodies.to_a.reverse.count do |path, body|
      response = get(path)
      assert_equal Digest::SHA256.hexdigest(body), Digest::SHA256.hexdigest(response.body)
      response["cache-status"].start_with?("paceline; hit")
    end
    assert_operator hits, :>, 20
    refute_match(/not use|any more|damaged/, @server.output)
  end

  def stored_pages
    noise = Random.new(2)
    (0...60).each { |n| @pages["/#{n}"] = ["Cache-Control: max-age=3600\r\nSurrogate-Key: k#{n}\r\n", noise.bytes(n.even? ? 300 : 20_000)] }
    (0...60).each { |n| get("/#{n}") }
  end

  def assert_all_right
    60.times do |n|
      response = get("/#{n}")
      assert_equal @pages["/#{n}"].last, response.body.b
      assert_equal "200", response.status.to_s
    end
  end

  # One bit in every page of the file in turn, and larger damage.
  def test_damage_is_seen_and_nothing_wrong_is_served
    stored_pages
    written
    @server.kill
    sound = File.binread(file)
    damages = (0...12).map { |n| ->(bytes) { at = (bytes.bytesize * (n + 0.37) / 12).to_i; bytes.setbyte(at, bytes.getbyte(at) ^ 4) } }
    damages << ->(bytes) { bytes[bytes.bytesize / 3, 5000] = Random.new(3).bytes(5000) }
    damages << ->(bytes) { bytes.replace(bytes[0, bytes.bytesize / 2]) }
    damages << ->(bytes) { bytes.replace(bytes[0, 5000]) }
    damages << ->(bytes) { bytes.replace(bytes[0, 100]) }
    damages << ->(bytes) { bytes.replace(Random.new(4).bytes(bytes.bytesize)) }
    damages << ->(bytes) { bytes.replace("\0" * bytes.bytesize) }
    damages.each do |damage|
      bytes = sound.dup
      damage.call(bytes)
      File.binwrite(file, bytes)
      start
      assert_all_right
      written
      @server.kill
      FileUtils.rm_f("#{file}.damaged")
    end
    # Most of it can't be missed.
    File.binwrite(file, sound[0, sound.bytesize / 2])
    start
    assert_match(/The cache on disk is damaged \(.*\): it starts empty; the damaged file is .*data\.mdb\.damaged$/, @server.output)
    assert_path_exists "#{file}.damaged"
    assert_equal 1, @server.output.scan("on disk").size
  end

  def shorten(path, part) = File.truncate(path, (File.size(path) * part).to_i)

  # LMDB maps its files: whoever reads what was cut off is ended by SIGBUS. The server looks at their length before.
  def test_files_that_another_program_shortens_cost_the_disk_cache_and_no_more
    %w[data.mdb lock.mdb].product([0, 0.5]).each do |name, part|
      path = File.join(File.dirname(file), name)
      get("/a")
      get("/b")
      written
      shorten(path, part)
      # Not in memory: it is looked for on disk.
      assert_equal "page /c", get("/c").body
      @server.wait_for(/The cache's disk is off now: another program shortened #{Regexp.escape(path)} from \d+ to \d+ bytes/)
      assert_hit("/a", "page /a")
      refute_path_exists file
      restart
      refute_match(/on disk/, @server.output)
      get("/a")
      restart
      assert_hit("/a", "page /a")
      assert_empty @asked
    end
  end

  # Nothing was read of it between: the next start finds it as it is.
  def test_a_shortened_file_is_found_at_the_next_start
    { 0 => /The cache on disk is gone \(.*data\.mdb is empty\): it starts empty$/,
      0.5 => /The cache on disk is damaged \(it is cut off\): it starts empty; the damaged file is .*data\.mdb\.damaged$/ }.each do |part, line|
      stored_pages
      written
      shorten(file, part)
      @server.kill
      start
      assert_match(line, @server.output)
      assert_all_right
      get("/kept")
      restart
      assert_hit("/kept", "page /kept")
    end
  end

  def test_pages_of_visitors_are_not_on_disk
    rules = "[[site.cache]]\npath = \"/mine/*\"\nttl = \"1h\"\ncookies = [\"_session\"]\n"
    @server.stop
    start(rules: rules)
    @pages["/mine/a"] = ["Cache-Control: private\r\n", "only mine, MARKED"]
    2.times { get("/mine/a", "Cookie: _session=s1\r\n") }
    assert_equal ["GET /mine/a"], @asked
    get("/all")
    restart(with: :KILL, rules: rules)
    stored = Dir[File.join(File.dirname(file), "*")].map { |path| File.binread(path) }.join
    assert_includes stored, "page /all"
    refute_includes stored, "MARKED"
    refute_includes stored, "/mine/a"
  end

  def test_a_second_server_serves_without
    get("/a")
    written
    first, other = @server, app
    more = "cache_dir = \"#{File.dirname(file)}\"\n"
    start(more: more, dir: other)
    assert_match(/The cache's disk is off: .*tmp\/cache\/paceline: another server has it$/, @server.output)
    get("/a")
    assert_hit("/a", "page /a")
    @server.stop
    @server = first
    assert_hit("/a", "page /a")
    restart
    assert_hit("/a", "page /a")
  end

  def test_a_folder_that_cannot_be_made
    @server.stop
    write(@dir, "in_the_way" => "")
    start(more: "cache_dir = \"#{@dir}/in_the_way/cache\"\n")
    assert_match(/The cache's disk is off: .*in_the_way\/cache: .*(Not a directory|File exists)/, @server.output)
    get("/a")
    assert_hit("/a", "page /a")
  end

  # Yields the settings of a disk cache on a file system of 2 MB, and its folder.
  def on_a_small_disk
    small = File.join(@dir, "small")
    FileUtils.mkdir_p(small)
    skip "only root may mount" unless Process.uid.zero? && system("mount", "-t", "tmpfs", "-o", "size=2m,mode=0755", "tmpfs", small, err: File::NULL)
    @server.stop
    yield "cache_dir = \"#{small}/cache\"\ncontrol = \"run.sock\"\n", small
  ensure
    @server.kill
    system("umount", small, err: File::NULL)
  end

  def test_a_disk_that_is_full
    on_a_small_disk { |more, small| fill(more, small) }
  end

  def fill(more, small)
    start(more: more)
    noise = Random.new(6)
    (0...40).each { |n| @pages["/#{n}"] = ["Cache-Control: max-age=3600\r\n", noise.bytes(100_000)] }
    (0...40).each { |n| get("/#{n}") }
    written
    @server.wait_for(/The cache's disk is off now: (No space left|Input\/output error .*: is it full\?)/)
    refute_path_exists File.join(small, "cache/data.mdb")
    eventually("the space to be free") { free(small) > 1_900_000 }
    (0...40).each { |n| assert_hit("/#{n}", @pages["/#{n}"].last.b) }
    assert_match(/^on disk: off, the log says why; tried again in \d+ (s|min)/, command("cache", "stats"))
    # As much room as the file had is not enough.
    command("purge", "--all")
    written
    assert_match(/^on disk: off/, command("cache", "stats"))
    assert system("mount", "-o", "remount,size=12m", small)
    begins_again
    get("/1")
    restart(with: :KILL, more: more)
    assert_hit("/1", @pages["/1"].last.b)
  end

  def begins_again
    eventually("the disk cache to begin again") do
      command("purge", "--all")
      @server.output.include?("The cache's disk is on again, with an empty file")
    end
  end

  def test_a_disk_that_is_full_at_the_start
    on_a_small_disk do |more, small|
      start(more: more)
      get("/a")
      written
      @server.kill
      Dir[File.join(small, "cache/*.mdb")].each { |path| File.delete(path) }
      system("head", "-c", "4m", "/dev/zero", out: File.join(small, "other"), err: File::NULL)
      start(more: more)
      @server.wait_for(/The cache's disk is off now: No space left on device \(os error 28\)\. Free disk space\. It begins again, empty, when /)
      get("/a")
      assert_hit("/a", "page /a")
      File.delete(File.join(small, "other"))
      begins_again
      get("/b")
      restart(with: :KILL, more: more)
      assert_hit("/b", "page /b")
    end
  end

  # Bytes. A deleted file that is open has its own, still.
  def free(folder) = `df --output=avail -B1 #{folder}`.lines.last.to_i

  def test_root_takes_no_folder_that_others_may_exchange
    skip "only root may give away" unless Process.uid.zero?
    @server.stop
    FileUtils.mkdir_p(File.join(@dir, "theirs"))
    File.chown(65_534, 65_534, File.join(@dir, "theirs"))
    start(more: "cache_dir = \"#{@dir}/theirs/cache\"\n")
    assert_match(/The cache's disk is off: .*others may write in .*theirs: name a cache_dir/, @server.output)
    File.symlink("/etc", File.join(@dir, "link"))
    @server.stop
    start(more: "cache_dir = \"#{@dir}/link\"\n")
    assert_match(/The cache's disk is off: .*link: it is not a directory/, @server.output)
    assert_equal 0o755, File.stat("/etc").mode & 0o777
  end

  def test_less_room_than_there_is_begins_anew
    @server.stop
    start(disk: "16MB")
    noise = Random.new(5)
    (0...110).each { |n| @pages["/#{n}"] = ["Cache-Control: max-age=3600\r\n", noise.bytes(100_000)] }
    (0...110).each { |n| get("/#{n}") }
    restart
    assert_match(/larger than cache_disk allows now: it starts empty/, @server.output)
    assert_operator File.size(file), :<=, 8 << 20
  end
end
