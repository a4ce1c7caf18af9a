# frozen_string_literal: true

# One account's site does its worst to another account's, in one server that is root's (`--sites`). What is asserted are counts: the other site is answered
# as often while the attack runs as the test asks, and the front's memory stays below a bound. As root.
#
#   ruby test/suites/hostile/tenants_test.rb -n /rules/
require "fileutils"
require "socket"
require_relative "../../e2e/support/scenario"
require_relative "../../e2e/support/egress_caller"
require_relative "../../e2e/support/wire"

class HostileTenantsTest < Minitest::Test
  include Scenario

  NEIGHBOUR = "neighbour.test"
  ATTACKER = "attacker.test"
  APPLICATION = "run ->(env) { [200, {}, [env[\"PATH_INFO\"].size.to_s]] }\n"
  # Answers of the neighbour while an attack runs: at a millisecond each they take a part of a second, behind an attack many times that.
  ANSWERS = 200
  # Seconds for these. The attacks of this file hold an event loop for that long and more where nothing bounds them.
  WITHIN = 20
  # Bytes that the front may grow by.
  GROWTH = 64 << 20

  def setup
    skip "only root serves several accounts" unless Process.uid.zero?
  end

  # A chain of links takes milliseconds to follow, and nobody waits for it but those who ask for it.
  def test_files_behind_chains_of_links
    serve_tenants({ "public/index.html" => "attacker" })
    chain = File.join(@dir, "attacker/public")
    File.write(File.join(chain, "page.html"), "found")
    # Each link has a path of thousands of segments.
    File.symlink("#{"./" * 2000}page.html", File.join(chain, "0.html"))
    1.upto(38) { |nth| File.symlink("#{"./" * 2000}#{nth - 1}.html", File.join(chain, "#{nth}.html")) }
    assert_equal "found", get(ATTACKER, "/38.html").body

    under_attack(8) { |socket| ask_again(socket, ATTACKER, "/38.html") }
  end

  # As above, for a file that the application names.
  def test_files_that_an_application_names_behind_chains_of_links
    send = "run ->(env) { [200, { \"x-sendfile\" => File.join(__dir__, \"38\") }, []] }\n"
    serve_tenants({ "config.ru" => send, "page" => "found" }, settings: "x_sendfile = true\n")
    home = File.join(@dir, "attacker")
    File.symlink("#{"./" * 2000}page", File.join(home, "0"))
    1.upto(38) { |nth| File.symlink("#{"./" * 2000}#{nth - 1}", File.join(home, nth.to_s)) }
    assert_equal "found", get(ATTACKER, "/").body

    under_attack(8) { |socket| ask_again(socket, ATTACKER, "/") }
  end

  # What loads of the code are compared by is read from the folder: however deep it is, and whatever lies there.
  def test_folders_without_end_of_an_application
    config = ->(body) { "run ->(env) { [200, { \"cache-control\" => \"public, max-age=600\" }, [\"#{body}\"]] }\n" }
    serve_tenants({ "config.ru" => config.call("one"), "#{"d/" * 1900}page.rb" => "" })
    home = File.join(@dir, "attacker")
    assert_equal "one", get(ATTACKER, "/").body
    File.mkfifo(File.join(home, "pipe.rb"), 0o644)
    { "zero.rb" => "/dev/zero", "circle" => "circle", "again" => ".", "all" => "/" }.each { |name, to| File.symlink(to, File.join(home, name)) }
    File.write(File.join(home, "config.ru"), config.call("two"))
    eventually("the clock to go on") { Time.now - File.ctime(File.join(home, "config.ru")) > 0.05 }
    FileUtils.touch(File.join(home, "tmp/restart.txt"))
    @server.wait_for(/attacker: purged 1 page: /)
    assert_equal "two", get(ATTACKER, "/").body
    under_attack(0) { nil }
  ensure
    # Too deep for what removes the folder else.
    system("rm", "-rf", File.join(@dir, "attacker/d")) if @dir
  end

  # Patterns below the bound, and the paths that take longest with them.
  def test_rules_with_many_patterns_and_a_long_path
    dear = Array.new(10) { |nth| "/*a*#{"ab" * 3}#{nth}*" }
    others = Array.new(500) { |nth| "/#{"a" * (nth % 30)}#{nth}*" }
    toml = "[[rule]]\npath = #{(dear + others).inspect}\ndeny = \"192.0.2.1\"\n"
    serve_tenants({}, settings: toml)
    long = "/#{"a%61;b/..%2f" * 580}"
    assert_equal 7, long.size / 1000 + 1
    assert_equal "200", get(ATTACKER, long).code

    under_attack(4) { |socket| ask_again(socket, ATTACKER, long) }
  end

  # Above the bound the site's own file is refused, and the site as it was goes on.
  def test_rules_beyond_the_bound_are_refused
    many = Array.new(3000) { |nth| "/path/#{nth}/*" }
    serve_tenants({}, settings: "[[rule]]\npath = #{many.inspect}\ndeny = \"192.0.2.1\"\n", ready: false)
    answer = get(ATTACKER, "/", "Accept" => "text/html")
    assert_equal "503", answer.code
    assert_match(/may weigh 32 KB/, @server.output)
    out = IO.popen([{ "PACELINE_USER" => nil }, Scenario::BIN, "check", "--sites", @dir], err: %i[child out], &:read)
    refute_predicate $?, :success?
    assert_match(/attacker\/paceline\.toml: the \[\[rule\]\].* weigh \d+ KB, and those of an account may weigh 32 KB/, out)

    under_attack(4) { |socket| ask_again(socket, ATTACKER, "/#{"a/" * 3000}") }
  end

  # Half a frame on each of a thousand connections.
  def test_half_frames_in_the_journal
    serve_tenants({}, settings: "[auto_cache]\nmode = \"watch\"\n")
    journal = eventually("the journal's socket") { Dir[File.join(@dir, "attacker/tmp/paceline-journal-*.sock")].first }
    before = @server.private_memory
    most = 0
    under_attack(0) do
      sockets = []
      Thread.new do
        half = [8 << 20, 0x64].pack("NC") + "x" * (8 << 20)
        half = half[0...-1]
        loop do
          socket = UNIXSocket.new(journal)
          sockets << socket
          written = 0
          (written += socket.write_nonblock(half.byteslice(written, 1 << 20))) while written < half.bytesize
        rescue IO::WaitWritable
          sockets.size < 1000 ? next : sleep(0.05)
        rescue SystemCallError
          sleep 0.05
        end
      end
    end
    20.times do
      most = [most, @server.private_memory].max
      assert_equal "1", get(NEIGHBOUR, "/").body
      sleep 0.05
    end
    assert_operator most - before, :<, GROWTH, "the front has grown by #{(most - before) >> 20} MB"
  end

  # Half a head of an outbound call on each connection that the socket takes: none is read for longer than ten seconds.
  def test_half_heads_of_outbound_calls
    serve_tenants({})
    path = eventually("the socket") { Dir[File.join(@dir, "attacker/tmp/paceline-egress.sock")].first }
    before = @server.private_memory
    half = "GET http://127.0.0.1:1/ HTTP/1.1\r\nHost: x\r\nX: #{"x" * (250 << 10)}"
    sockets = Array.new(256) { UNIXSocket.new(path) }
    sockets.each do |socket|
      written = 0
      (written += socket.write_nonblock(half.byteslice(written, 1 << 20))) while written < half.bytesize
    rescue IO::WaitWritable
      next
    end
    most = 0
    under_attack(0) { nil }
    20.times do
      most = [most, @server.private_memory].max
      assert_equal "1", get(NEIGHBOUR, "/").body
    end
    # Sixteen for what is larger than usual, and what is usual of each; all of them would take sixty.
    assert_operator most - before, :<, 40 << 20, "the front has grown by #{(most - before) >> 20} MB"
    # Each is closed, so that those that wait have their turn.
    assert_equal 256, sockets.count { |socket| ended?(socket) }
  ensure
    sockets&.each(&:close)
  end

  # An application that calls very many others keeps no connection from the neighbour: the front has a number of descriptors for all.
  def test_outbound_calls_to_very_many_others
    serve_tenants({})
    path = eventually("the socket") { Dir[File.join(@dir, "attacker/tmp/paceline-egress.sock")].first }
    listener = TCPServer.new("127.0.0.1", 0)
    listener.listen(4096)
    answering = Thread.new { loop { answer_for_ever(listener.accept) } }
    caller_ = EgressCaller.new(path)
    # Each name is an upstream of its own, whose connection is kept.
    open = Array.new(1300) do |nth|
      assert_equal "ok", caller_.call("http://#{nth}.test:#{listener.addr[1]}/", 'address="127.0.0.1"').body
      (nth % 50).zero? ? Dir.children("/proc/#{@server.pid}/fd").size : 0
    end
    assert_operator open.max, :<, 1200
    assert_operator open.max, :>, 500, "connections are kept at all"
    under_attack(0) { nil }
  ensure
    answering&.kill
    caller_&.close
    listener&.close
  end

  # A call may name any file of certificates: root reads none for an account, and waits for none.
  def test_certificates_of_outbound_calls_are_read_as_the_account
    serve_tenants({})
    home = File.join(@dir, "attacker")
    path = eventually("the socket") { Dir[File.join(home, "tmp/paceline-egress.sock")].first }
    secret = File.join(@dir, "secret.pem")
    File.write(secret, "nothing", perm: 0o600)
    File.mkfifo(File.join(home, "fifo"), 0o644)
    listener = TCPServer.new("127.0.0.1", 0)
    said = { secret => "Permission denied", File.join(home, "fifo") => "no regular file", "/dev/zero" => "no regular file" }
    caller_ = EgressCaller.new(path)
    said.each do |file, why|
      answer = caller_.call("https://127.0.0.1:#{listener.addr[1]}/", "ca_file=\"#{file}\", open_timeout=20.0")
      assert_match(/\Atls; ?message=.*#{why}/, answer["paceline-egress-error"], file)
    end
  ensure
    caller_&.close
    listener&.close
  end

  # What is kept of outbound calls is in the server's memory.
  def test_a_cache_of_outbound_calls_beyond_the_bound_is_refused
    serve_tenants({}, settings: "egress_cache = \"1GB\"\n", ready: false)
    assert_equal "503", get(ATTACKER, "/", "Accept" => "text/html").code
    assert_match(/egress_cache is 1048576 KB, and in a file of an account it may be 65536 KB/, @server.output)
  end

  private

  # Whether the other end closes it, within the time for a head and some more.
  def ended?(socket)
    loop do
      return false unless socket.wait_readable(30)
      return true if socket.read_nonblock(4096, exception: false).nil?
    end
  rescue SystemCallError
    true
  end

  def answer_for_ever(socket)
    Thread.new do
      while (line = socket.gets)
        socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") if line == "\r\n"
      end
    rescue SystemCallError
      nil
    ensure
      socket.close
    end
  end

  def serve_tenants(files, settings: "", ready: true)
    @dir = app
    File.chmod(0o755, @dir)
    attacker = { "config.ru" => APPLICATION, "paceline.toml" => settings, "tmp/keep" => "" }.merge(files)
    neighbour = { "config.ru" => APPLICATION, "public/page.html" => "page", "tmp/keep" => "" }
    { "attacker" => ["nobody", attacker], "neighbour" => ["daemon", neighbour] }.each do |site, (account, content)|
      write(@dir, content.transform_keys { |name| "#{site}/#{name}" })
      FileUtils.chown_R(account, nil, File.join(@dir, site))
    end
    @server = serve(@dir, "--sites", @dir, "-w", "1", "-t", "2", "-e", "production", "--front-threads", "1", env: { "PACELINE_USER" => nil }, ready: false)
    assert_equal "1", get(NEIGHBOUR, "/").body
    assert_equal "1", get(ATTACKER, "/").body if ready && files["config.ru"].nil? && files["public/index.html"].nil?
  end

  def get(host, path, fields = {}) = @server.get(path, fields.merge("Host" => host))

  # One connection that asks the same again and again.
  def ask_again(socket, host, path)
    socket.write("GET #{path} HTTP/1.1\r\nHost: #{host}\r\n\r\n")
    Wire.response(socket)
  end

  # The neighbour's application and its files are answered while so many connections attack.
  def under_attack(connections, &attack)
    stop = false
    attack.call if connections.zero?
    attackers = Array.new(connections) do
      Thread.new do
        @server.connect { |socket| attack.call(socket) until stop }
      rescue EOFError, SystemCallError, Timeout::Error, Wire::Broken
        retry unless stop
      end
    end
    began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    answered = 0
    @server.connect do |socket|
      while answered < ANSWERS && Process.clock_gettime(Process::CLOCK_MONOTONIC) - began < WITHIN
        path = answered.even? ? "/" : "/page.html"
        response = ask_again(socket, NEIGHBOUR, path)
        assert_equal [200, answered.even? ? "1" : "page"], [response.status, response.body]
        answered += 1
      end
    end
    assert_equal ANSWERS, answered, "answers of the neighbour within #{WITHIN} s"
  ensure
    stop = true
    attackers&.each { |thread| thread.join(2) || thread.kill }
  end
end
