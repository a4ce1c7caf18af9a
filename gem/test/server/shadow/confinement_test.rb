# frozen_string_literal: true

require_relative "support/shadow_case"
require "paceline/server/shadow/confinement"

# The kernel holds a shadow to what the guards promise, in libraries in C and in programs, too; without it the guards hold what goes through Ruby.
class ShadowConfinementTest < ShadowCase
  KERNEL = Paceline::Server::Shadow::Confinement::Landlock.abi
  # Each gets the path of a file that is there, and one of a file that is not, in the same folder.
  BY_RUBY = {
    "write" => "File.write(THERE, 'x')", "new" => "File.write(NEW, 'x')", "append" => "File.open(THERE, 'a') { |f| f << 'x' }", "sysopen" => "IO.for_fd(IO.sysopen(THERE, 'r+')).write('x')",
    "reopen" => "File.open('/dev/null', 'w') { |f| f.reopen(THERE, 'w'); f.write('x') }", "reopen as it is" => "File.open('/dev/null', 'w') { |f| f.reopen(THERE); f.write('x') }",
    "link" => "(File.link(THERE, OWN); File.write(OWN, 'x'))", "symlink" => "(File.symlink(THERE, OWN); File.write(OWN, 'x'))", "symlink to its folder" => "(File.symlink(File.dirname(THERE), OWN); File.write(File.join(OWN, File.basename(NEW)), 'x'))",
    "chmod" => "File.chmod(0o600, THERE)", "its chmod" => "File.open(THERE) { |f| f.chmod(0o600) }", "chown" => "File.chown(1, 1, THERE)", "its chown" => "File.open(THERE) { |f| f.chown(1, 1) }",
    "utime" => "File.utime(0, 0, THERE)", "truncate" => "File.truncate(THERE, 0)", "delete" => "File.delete(THERE)", "rename" => "File.rename(THERE, NEW)", "replace" => "(File.write(OWN, 'x'); File.rename(OWN, THERE))",
    "working folder" => "Dir.chdir(File.dirname(THERE)) { File.write(\"/proc/self/cwd/\#{File.basename(THERE)}\", 'x') }", "root" => "File.write(\"/proc/self/root\#{THERE}\", 'x')",
    "descriptor" => "File.open(THERE) { |f| File.write(\"/proc/self/fd/\#{f.fileno}\", 'x') }", "dev fd" => "File.open(THERE) { |f| File.open(\"/dev/fd/\#{f.fileno}\", 'w') { |o| o << 'x' } }",
    "folder's descriptor" => "Dir.open(File.dirname(THERE)) { |d| File.write(\"/proc/self/fd/\#{d.fileno}/\#{File.basename(NEW)}\", 'x') }", "mkdir" => "Dir.mkdir(NEW)", "mkfifo" => "File.mkfifo(NEW)",
    "copy" => "IO.copy_stream(StringIO.new('x'), THERE)", "FileUtils" => "FileUtils.cp('/dev/null', THERE)", "lchown" => "File.lchown(1, 1, THERE)", "lutime" => "File.lutime(0, 0, THERE)",
    "a socket" => "UNIXServer.new(NEW)", "a bound socket" => "Socket.new(:UNIX, :STREAM).bind(Addrinfo.unix(NEW))", "a listener" => "Socket.unix_server_socket(NEW)", "a program's output" => "system('echo', 'x', out: THERE)",
    "several outputs" => "spawn('echo', 'x', [:out, :err] => [NEW, 'w'])", "options in braces" => "spawn('echo x', { 2 => NEW })", "options in a list" => "IO.popen(['echo', 'x', { err: [THERE, File::WRONLY | File::APPEND] }], &:read)",
    "an output by its object" => "IO.popen('echo x', STDERR => THERE, &:read)", "exec" => "exec('echo', 'x', out: THERE)"
  }.freeze
  BEYOND = {
    "shell" => "system('sh', '-c', 'echo x > \"$0\"', THERE)", "touch" => "system('touch', NEW)", "chmod by a program" => "system('chmod', '600', THERE)", "rm" => "`rm -f \#{THERE}`",
    "another Ruby" => "IO.popen([RbConfig.ruby, '-e', 'File.write(ARGV[0], \"x\")', THERE], err: File::NULL, &:read)", "link by a program" => "system('sh', '-c', 'ln \"$0\" \"$1\" && echo x > \"$1\"', THERE, OWN)",
    "its child" => "Process.wait(fork { C['open'].call(THERE, 1); exit!(0) })",
    "open" => "C['write'].call(C['open'].call(THERE, 1), 'x', 1)", "open to shorten" => "C['open'].call(THERE, 0o1000)", "creat" => "C['creat'].call(NEW, 0o600)", "unlink in C" => "C['unlink'].call(THERE)",
    "rename in C" => "C2['rename'].call(THERE, NEW)", "link in C" => "C2['link'].call(THERE, NEW)", "symlink in C" => "C2['symlink'].call('/', NEW)", "chmod in C" => "C['chmod'].call(THERE, 0o600)", "truncate in C" => "C['truncate'].call(THERE, 0)",
    "mkdir in C" => "C['mkdir'].call(NEW, 0o700)", "mknod" => "C['mknod'].call(NEW, 0o100600)", "utimes in C" => "C['utimes'].call(THERE, 0)", "removexattr" => "C2['removexattr'].call(THERE, 'user.x')",
    "syscall" => "syscall(2, THERE, 1)"
  }.freeze
  HEAD = <<~'RUBY'
    %w[fiddle fileutils socket stringio tmpdir].each { |name| require name }
    C = Hash.new do |all, name|
      function = Fiddle::Function.new(Fiddle.dlopen(nil)[name], [Fiddle::TYPE_VOIDP, Fiddle::TYPE_INT, Fiddle::TYPE_INT], Fiddle::TYPE_INT)
      all[name] = ->(first, *others) { function.call(first, *(others + [0, 0]).first(2)) }
    end
    # The second argument is text, too.
    C2 = Hash.new { |all, name| all[name] = Fiddle::Function.new(Fiddle.dlopen(nil)[name], [Fiddle::TYPE_VOIDP, Fiddle::TYPE_VOIDP], Fiddle::TYPE_INT) }
    write = Fiddle::Function.new(Fiddle.dlopen(nil)["write"], [Fiddle::TYPE_INT, Fiddle::TYPE_VOIDP, Fiddle::TYPE_SIZE_T], Fiddle::TYPE_INT)
    C["write"] = write
    $VERBOSE = nil
    def outcome
      yield.inspect
    rescue SystemCallError, IOError => e
      e.class.name
    end
  RUBY

  # What can be seen of all below a folder.
  def state(folder)
    [folder, *Dir.glob("**/*", File::FNM_DOTMATCH, base: folder).map { |name| File.join(folder, name) }].to_h do |path|
      stat = File.lstat(path)
      [path, [stat.mode, stat.uid, stat.mtime, stat.ctime, stat.nlink, stat.size, stat.file? ? File.read(path) : nil]]
    end
  end

  # Folders of which nothing may change: of the application, for temporary files, and in memory.
  def with_targets
    Dir.mktmpdir do |temporary|
      Dir.mktmpdir(nil, "/dev/shm") do |memory|
        folders = { "app" => nil, "temporary" => temporary, "memory" => memory }
        yield folders
      end
    end
  end

  # Runs all forms on all targets in one shadow.
  def matrix(forms, head: "")
    with_targets do |targets|
      cases = targets.keys.product(forms.keys)
      routes = cases.each_with_index.to_h do |(target, form), number|
        paths = targets[target] ? targets[target].inspect : "File.join(__dir__, 'data')"
        ["/#{number}", "(Object.send(:remove_const, :THERE) if defined?(THERE); Object.send(:remove_const, :NEW) if defined?(NEW); Object.send(:remove_const, :OWN) if defined?(OWN); " \
                       "THERE = File.join(#{paths}, 'there'); NEW = File.join(#{paths}, 'new'); OWN = File.join(Dir.tmpdir, 'own#{number}'); outcome { #{forms[form]} })"]
      end
      prepare = "([File.join(__dir__, 'data')] + #{targets.values.compact.inspect}).each { |folder| FileUtils.mkdir_p(folder); File.write(File.join(folder, 'there'), 'kept'); File.chmod(0o644, File.join(folder, 'there')) }\n"
      with_shadow("#{head}#{HEAD}#{prepare}#{routes(routes)}") do |shadow, dir|
        folders = [File.join(dir, "data"), *targets.values.compact]
        cases.each_with_index do |(target, form), number|
          before = folders.map { |folder| state(folder) }
          result = shadow.get("/#{number}")
          assert_equal before, folders.map { |folder| state(folder) }, "#{form} of #{target}: #{result["text"]}"
          yield "#{form} of #{target}", result
        end
      end
    end
  end

  def test_nothing_is_written_by_ruby
    ["", WITHOUT_KERNEL].each do |head|
      next if head.empty? && KERNEL.zero?

      matrix(BY_RUBY, head: head) { |name, result| assert_equal "file", result.dig("write", "kind"), "#{name}: #{result["text"]}" }
    end
  end

  def test_nothing_is_written_in_c_and_by_programs
    skip "no Landlock in this kernel" if KERNEL.zero?
    matrix(BEYOND) { |name, result| assert_equal 200, result["status"], name }
  end

  def test_what_the_kernel_does_not_know_is_told
    with_shadow("#{WITHOUT_KERNEL}#{routes("/" => "'fine'")}") do |shadow|
      assert_equal [%w[files connections signals calls], "fine"], [shadow.hello["unconfined"], shadow.get("/")["text"]]
    end
    with_shadow(routes("/" => "File.read('/proc/self/status')[/^Seccomp:\\s*(\\d)/, 1] + File.read('/proc/self/status')[/^NoNewPrivs:\\s*(\\d)/, 1]")) do |shadow|
      skip "no Landlock in this kernel" if KERNEL.zero?
      missing = { "connections" => 4, "signals" => 6 }.select { |_, since| KERNEL < since }.keys
      assert_equal [missing, "21"], [shadow.hello["unconfined"], shadow.get("/")["text"]]
    end
  end

  # The kernel asks for rights when a file is opened: those of before the fork have other ones.
  def test_what_was_open_before
    head = "FD = C['open'].call(File.join(__dir__, 'there').tap { |f| File.write(f, 'kept') }, 2)\nAPPENDED = C['open'].call(File.join(__dir__, 'there'), 0o2001)\n" \
           "OUT = IO.popen(['sh', '-c', 'cat > \"$0\"', File.join(__dir__, 'piped')], 'w')\nHERE = IO.pipe\n"
    ["", WITHOUT_KERNEL].each do |kernel|
      codes = { "/fd" => "C['write'].call(FD, 'x', 1)", "/appended" => "C['write'].call(APPENDED, 'x', 1)", "/piped" => "(OUT.write('x'); OUT.flush)", "/here" => "(HERE[1].write('x'); HERE[0].read(1))" }
      with_shadow("#{kernel}#{HEAD}#{head}#{routes(codes.transform_values { |code| "outcome { #{code} }" })}") do |shadow, dir|
        answers = codes.keys.to_h { |path| [path, shadow.get(path)["text"]] }
        assert_equal ["-1", "\"x\""], answers.values_at("/fd", "/here")
        assert_equal "kept", File.read(File.join(dir, "there"))
        assert_empty File.read(File.join(dir, "piped"))
      end
    end
  end

  def test_no_connection_is_opened_in_c_and_by_programs
    skip "this kernel's Landlock knows no TCP" if KERNEL < Paceline::Server::Shadow::Confinement::Landlock::TCP_SINCE
    TCPServer.open("127.0.0.1", 0) do |listener|
      port = listener.addr[1]
      address = "Socket.sockaddr_in(#{port}, '127.0.0.1')"
      codes = { "/c" => "C['connect'].call(Socket.new(:INET, :STREAM).fileno, #{address}, 16)", "/shell" => "system('bash', '-c', 'echo x > /dev/tcp/127.0.0.1/#{port}', err: File::NULL)",
                "/ruby" => "system(RbConfig.ruby, '-rsocket', '-e', 'TCPSocket.new(%(127.0.0.1), #{port})', err: File::NULL)",
                "/fast in C" => "syscall(44, Socket.new(:INET, :STREAM).fileno, 'x', 1, 0x20000000, [#{address}].pack('P').unpack1('J'), 16)", "/several paths" => "Socket.new(:INET, :STREAM, 262).fileno" }
      # A descriptor is no pointer.
      head = "require 'socket'\nC['connect'] = Fiddle::Function.new(Fiddle.dlopen(nil)['connect'], [Fiddle::TYPE_INT, Fiddle::TYPE_VOIDP, Fiddle::TYPE_INT], Fiddle::TYPE_INT)\n"
      with_shadow("#{HEAD}#{head}#{routes(codes.transform_values { |code| "outcome { #{code} }" })}") do |shadow|
        found = codes.keys.to_h { |path| [path, shadow.get(path)["text"]] }
        assert_equal({ "/c" => "-1", "/shell" => "false", "/ruby" => "false", "/fast in C" => "Errno::EPERM", "/several paths" => "Errno::EPERM" }, found)
        assert_equal :wait_readable, listener.accept_nonblock(exception: false)
      end
    end
  end

  def test_no_other_process_is_signalled_in_c_and_by_programs
    skip "this kernel's Landlock knows no signals" if KERNEL < Paceline::Server::Shadow::Confinement::Landlock::SCOPED_SINCE
    head = "C['kill'] = Fiddle::Function.new(Fiddle.dlopen(nil)['kill'], [Fiddle::TYPE_INT, Fiddle::TYPE_INT], Fiddle::TYPE_INT)\n"
    codes = { "/c" => "C['kill'].call(#{Process.pid}, Signal.list['CONT'])", "/program" => "system('kill', '-CONT', '#{Process.pid}', err: File::NULL)", "/own" => "Process.kill(:CONT, Process.pid)",
              "/child" => "(pid = spawn('sleep', '60'); Process.kill(:KILL, pid); Process.wait(pid); $?.termsig)", "/priority" => "system('renice', '-n', '19', '-p', '#{Process.pid}', out: File::NULL, err: File::NULL)" }
    with_shadow("#{HEAD}#{head}#{routes(codes.transform_values { |code| "outcome { #{code} }" })}") do |shadow|
      assert_equal %w[-1 false 1 9 false], (codes.keys.map { |path| shadow.get(path)["text"] })
    end
  end

  # Sockets without a path are no files.
  def test_no_socket_without_a_path_is_connected_to_in_c_and_by_programs
    skip "this kernel's Landlock knows no such sockets" if KERNEL < Paceline::Server::Shadow::Confinement::Landlock::SCOPED_SINCE
    name = "\0paceline-shadow-test-#{Process.pid}"
    Addrinfo.unix(name).listen do |listener|
      head = "C['connect'] = Fiddle::Function.new(Fiddle.dlopen(nil)['connect'], [Fiddle::TYPE_INT, Fiddle::TYPE_VOIDP, Fiddle::TYPE_INT], Fiddle::TYPE_INT)\nTHEIRS = #{Socket.sockaddr_un(name).inspect}.b\n"
      connect = "Socket.new(:UNIX, :STREAM).connect(#{Socket.sockaddr_un(name).inspect}.b)"
      codes = { "/c" => "C['connect'].call(Socket.new(:UNIX, :STREAM).fileno, THEIRS, THEIRS.bytesize)", "/program" => "system(RbConfig.ruby, '-rsocket', '-e', #{connect.inspect}, err: File::NULL)" }
      with_shadow("#{HEAD}#{head}#{routes(codes.transform_values { |code| "outcome { #{code} }" })}") do |shadow|
        assert_equal %w[-1 false], (codes.keys.map { |path| shadow.get(path)["text"] })
        assert_equal :wait_readable, listener.accept_nonblock(exception: false)
      end
    end
  end

  # All processes of the account, and of the group, are others as well.
  def test_no_priority_of_others_is_changed
    head = "def outcome\n  yield.inspect\nrescue SystemCallError => e\n  e.class.name\nend\n"
    other = spawn("sleep", "600")
    codes = { "/user" => "Process.setpriority(Process::PRIO_USER, Process.uid, 7)", "/everybody" => "Process.setpriority(Process::PRIO_USER, 0, 7)", "/group" => "Process.setpriority(Process::PRIO_PGRP, 0, 7)",
              "/process" => "Process.setpriority(Process::PRIO_PROCESS, #{other}, 7)", "/processors" => "system('taskset', '-p', '1', '#{other}', out: File::NULL, err: File::NULL)",
              "/scheduler" => "system('chrt', '-b', '-p', '0', '#{other}', out: File::NULL, err: File::NULL)", "/disk" => "system('ionice', '-c', '3', '-p', '#{other}', out: File::NULL, err: File::NULL)",
              "/limits" => "system('prlimit', '--pid', '#{other}', '--core=7:7', err: File::NULL)",
              "/disks" => "system('ionice', '-c', '3', '-u', '#{Process.uid}', out: File::NULL, err: File::NULL)", "/own" => "Process.setpriority(Process::PRIO_PROCESS, 0, Process.getpriority(Process::PRIO_PROCESS, 0))" }
    before = scheduling_of(other)
    with_shadow("#{head}#{routes(codes.transform_values { |code| "outcome { #{code} }" })}") do |shadow|
      assert_equal %w[Errno::EPERM Errno::EPERM Errno::EPERM Errno::EPERM false false false false false 0], (codes.keys.map { |path| shadow.get(path)["text"] })
    end
    assert_equal before, scheduling_of(other)
  ensure
    Process.kill(:KILL, other)
    Process.wait(other)
  end

  # Its niceness, the policy of its scheduler, its processors, the class of its disk accesses, and its limits.
  def scheduling_of(pid)
    stat = File.read("/proc/#{pid}/stat").split(") ").last.split
    [stat[16], stat[38], File.read("/proc/#{pid}/status")[/^Cpus_allowed:.*/], IO.popen(["ionice", "-p", pid.to_s], &:read), File.read("/proc/#{pid}/limits")]
  end

  # The list of each request: what was started, and where.
  def test_programs_are_named
    codes = { "/" => "[system('true'), `echo kept`, IO.popen(%w[cat /dev/null], &:read), Process.wait(spawn({ 'A' => 'b' }, '/bin/true')), IO.popen('VARIABLE=1 env >/dev/null', &:read), IO.popen([{ 'A' => 'b' }, 'head', '/dev/null'], &:read)].size",
              "/none" => "(IO.popen('-') { |io| io ? io.read : exit!(0) }; 'none')" }
    with_shadow(routes(codes)) do |shadow|
      2.times { assert_equal([%w[true echo cat env head], nil], shadow.get("/").then { |result| [result["programs"].map(&:first), result["write"]] }) }
      assert_match(/\Aconfig\.ru:\d+\z/, shadow.get("/")["programs"][0][1])
      assert_equal [], shadow.get("/none")["programs"]
    end
  end

  # Whoever rescues the error: the request is no read.
  def test_what_the_kernel_refuses_is_noted
    skip "no Landlock in this kernel" if KERNEL.zero?
    # As by a way that no guard knows.
    code = "(begin; UNIXServer.instance_method(:initialize).super_method.bind_call(UNIXServer.allocate, File.join(__dir__, 'new')); rescue SystemCallError; 'rescued'; end)"
    with_shadow("require 'socket'\n#{routes("/" => code)}") do |shadow|
      2.times { assert_equal(["rescued", "file"], shadow.get("/").then { |result| [result["text"], result.dig("write", "kind")] }) }
    end
  end
end
