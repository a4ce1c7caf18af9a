# Who an application runs as when the server is root: nobody's run as nobody, and no account becomes root or another account. Root's own
# runs as root where it is the only one, or if that is said.
require_relative "../support/scenario"
require "etc"

class UsersTest < Minitest::Test
  include Scenario

  WHO = <<~RUBY
    require "etc"
    run lambda { |env|
      case env["PATH_INFO"]
      when "/body" then body = env["rack.input"].read; [200, {}, [body.bytesize.to_s, " ", body[-3..]]]
      when "/sendfile" then [200, { "x-sendfile" => env["QUERY_STRING"] }, []]
      when "/to_path" then [200, {}, Class.new { define_method(:to_path) { env["QUERY_STRING"] }; def each = yield("instead") }.new]
      when "/secret" then [200, {}, [(File.read("/etc/shadow") rescue $!.class.name)]]
      when "/root" then [200, {}, [(Process::Sys.setuid(0) rescue $!.class.name).to_s]]
      when "/out" then File.write("/dev/stdout", "through /dev/stdout\\n"); [200, {}, ["out"]]
      else [200, {}, [[Process.uid, Process.euid, Process.gid, Process.egid, Process.groups.sort, Dir.home, ENV["USER"], ENV["LOGNAME"], WHO_LOADED, ENV["LD_BIND_NOT"]].inspect]]
      end
    }
    WHO_LOADED = Process.uid
    $stdout.puts "loading as \#{Process.uid}"
  RUBY

  NOBODY = Etc.getpwnam("nobody")

  def setup
    skip "only root can run an application as somebody else" unless Process.uid.zero?
  end

  def test_an_application_runs_as_the_owner_of_its_directory
    server = serve_as_itself(owned("config.ru" => WHO), "-w", "2")

    assert_equal [NOBODY.uid, NOBODY.uid, NOBODY.gid, NOBODY.gid, [NOBODY.gid], NOBODY.dir, "nobody", "nobody", NOBODY.uid, nil].inspect,
                 server.get("/").body
    assert_equal "Errno::EPERM", server.get("/root").body
    assert_equal "Errno::EACCES", server.get("/secret").body
    assert_equal [NOBODY.uid] * 3, (server.preloaders + server.workers).map { |pid| File.stat("/proc/#{pid}").uid }
    server.get("/out")
    server.wait_for(/through \/dev\/stdout/)
    workers = server.workers
    server.kill
    eventually("the workers to follow the front") { workers.none? { |pid| File.exist?("/proc/#{pid}") } }
  end

  def test_user_and_group_are_settings
    server = serve_as_itself(app("config.ru" => WHO, "paceline.toml" => %(user = "nobody"\ngroup = "daemon"\nenv.LD_BIND_NOT = "1")))
    who = server.get("/").body

    assert_equal [NOBODY.uid, NOBODY.uid, Etc.getgrnam("daemon").gid, Etc.getgrnam("daemon").gid], eval(who).first(4)
    assert_equal "1", eval(who).last
  end

  def test_the_only_application_of_a_server_may_be_roots_and_a_warning_says_so
    dir = app("config.ru" => WHO, "public/plain.txt" => "plain")
    server = serve_as_itself(dir)
    warning = /WARNING: \S+ runs as root, the owner of #{Regexp.escape(dir)}: .*Set `user = "deploy"`/

    server.wait_for(warning)
    assert_equal 0, eval(server.get("/").body).first
    assert_equal "plain", server.get("/plain.txt").body
    assert_equal 1, server.output.scan("WARNING").size
    assert_equal 0, server.stop.exitstatus

    refute_match warning, serve_as_itself(dir, "--user", "root").output
    as_user = serve_as_itself(dir, "--user", "nobody")
    assert_equal NOBODY.uid, eval(as_user.get("/").body).first
    refute_match warning, as_user.output
  end

  def test_one_of_several_sites_is_refused_if_it_is_roots
    dir = app("one/config.ru" => WHO, "two/config.ru" => WHO, "one/public/plain.txt" => "plain",
      "paceline.toml" => %([[site]]\nroot = "one"\nhost = "one.test"\n[[site]]\nroot = "two"\nhost = "two.test"))
    FileUtils.chown_R("nobody", NOBODY.gid, File.join(dir, "two"))
    server = serve_as_itself(dir, ready: false)
    server.wait_for(/it would run as root, the owner of #{Regexp.escape(dir)}\/one: set `user = "deploy"`, or `user = "root"` if you mean it/)
    answer = server.get("/", "Accept" => "text/html", "Host" => "one.test")

    assert_equal "503", answer.code
    assert_includes answer.body, "would run as root"
    assert_equal NOBODY.uid, eval(server.get("/", "Host" => "two.test").body).first

    sites = serve_as_itself(dir, "-C", "-", "--sites", dir, ready: false)
    assert_equal "503", sites.get("/", "Host" => "one.test").code
  end

  # As in a container that was started with --cap-drop=ALL.
  def test_root_that_can_not_become_somebody_else_serves_its_own_and_nothing_else
    files = { "config.ru" => WHO, "public/plain.txt" => "plain" }
    without = %w[setpriv --bounding-set=-setuid,-setgid --inh-caps=-setuid,-setgid]
    own = serve_as_itself(app(files), within: without)
    assert_equal "plain", own.get("/plain.txt").body
    assert_equal "404", own.get("/sendfile?/none").code
    assert_equal 0, eval(own.get("/").body).first

    theirs = serve_as_itself(owned(files), within: without, ready: false)
    theirs.wait_for(/this server can't become nobody: .*capabilities SETUID and SETGID/)
    assert_equal "503", theirs.get("/plain.txt").code
  end

  # Whoever can write in a directory on the way can put other code there.
  def test_nothing_is_run_as_root_that_others_can_change
    { "." => 0o777, "config.ru" => 0o666, "config" => 0o777, "lib" => 0o777 }.each do |open, mode|
      dir = app("config.ru" => WHO, "config/puma.rb" => "", "lib/shop.rb" => "")
      server = serve_as_itself(dir, "-C", "-", ready: false) { File.chmod(mode, File.join(dir, open)) }
      server.wait_for(/would be run as root, and others can write in #{Regexp.escape(File.expand_path(open, dir))}: give it to root alone/)
      refute_includes server.output, "loading as"
    end
  end

  def test_an_unknown_user_is_a_failed_start
    server = serve_as_itself(app("config.ru" => WHO), "--user", "no-such-user", ready: false)

    server.wait_for(/this machine has no user `no-such-user`/)
  end

  def test_a_large_body_reaches_the_user
    server = serve_as_itself(owned("config.ru" => WHO))
    body = "x" * 1_000_000 + "end"

    assert_equal "1000003 end", server.request(Net::HTTP::Post.new("/body").tap { |post| post.body = body }).body
  end

  def test_files_are_read_with_the_users_eyes
    secret = "/etc/shadow"
    dir = owned("config.ru" => WHO, "public/plain.txt" => "plain")
    File.symlink(secret, File.join(dir, "public/secret.txt"))
    server = serve_as_itself(dir)

    assert_equal "plain", server.get("/plain.txt").body
    refute_includes server.get("/secret.txt").body, "root:"
    assert_equal "404", server.get("/sendfile?#{secret}").code
    assert_equal "instead", server.get("/to_path?#{secret}").body
    assert_equal "plain", server.get("/sendfile?#{dir}/public/plain.txt").body
    assert_equal "plain", server.get("/to_path?#{dir}/public/plain.txt").body
  end

  def test_an_application_that_is_given_away_is_started_as_its_new_owner
    dir = app("config.ru" => WHO, "public/plain.txt" => "plain")
    File.symlink("/etc/shadow", File.join(dir, "public/secret.txt"))
    server = serve_as_itself(dir)
    assert_equal 0, eval(server.get("/").body).first

    FileUtils.chown_R("nobody", NOBODY.gid, dir)

    server.wait_for(/its settings or files have changed/)
    eventually("the new owner's") { server.get("/").then { |answer| answer.code == "200" && eval(answer.body).first == NOBODY.uid } }
    refute_includes server.get("/secret.txt").body, "root:"
  end

  def test_error_pages_show_no_source_that_the_user_can_not_read
    dir = owned("config.ru" => 'run ->(env) { eval("raise %(here)", nil, File.join(__dir__, env["PATH_INFO"]), 1) }', "source.rb" => "readable = 1")
    File.symlink("/etc/shadow", File.join(dir, "secret.rb"))
    readable, secret = %w[/source.rb /secret.rb].map { |path| serve_as_itself(dir).get(path, "Accept" => "text/html") }

    assert_equal %w[500 500], [readable.code, secret.code]
    assert_includes readable.body, "readable = 1"
    assert_includes secret.body, "RuntimeError"
    refute_includes secret.body, "root:"
  end

  def test_puma_rb_is_never_evaluated_as_root
    dir = owned("config.ru" => WHO, "config/puma.rb" => %(File.write("#{Dir.tmpdir}/paceline-puma-#{$$}", Process.uid.to_s)\nthreads 2, 2\n))
    said = File.join(Dir.tmpdir, "paceline-puma-#{$$}")
    server = serve_as_itself(dir)

    assert_equal NOBODY.uid, File.stat(said).uid
    assert_equal NOBODY.uid.to_s, File.read(said)
    server.wait_for(/1 x 2 threads/)
  ensure
    FileUtils.rm_f(said) if said
  end

  # A link in somebody's directory makes root's file none of root's: what that loads lies beside the link.
  def test_a_link_to_roots_file_is_not_evaluated_as_root
    said = File.join(Dir.tmpdir, "paceline-link-#{$$}")
    roots = app("puma.rb" => %(File.write("#{said}-" + Process.uid.to_s, "")\n))
    File.chmod(0o755, roots)
    dir = app("config.ru" => WHO, "config/other" => "")
    File.symlink(File.join(roots, "puma.rb"), File.join(dir, "config/puma.rb"))
    FileUtils.chown_R("nobody", NOBODY.gid, dir)
    File.lchown(NOBODY.uid, NOBODY.gid, File.join(dir, "config/puma.rb"))
    serve_as_itself(dir)

    assert_equal ["#{said}-#{NOBODY.uid}"], Dir["#{said}-*"]
  ensure
    FileUtils.rm_f(Dir["#{said}-*"])
  end

  # What a running application can do of itself: put a link to root's file where the server reads its settings, and have the server start anew.
  def test_an_application_that_asks_for_an_upgrade_runs_nothing_as_root
    dir = app("config.ru" => <<~RUBY, "config/bundler/vendored_fileutils.rb" => %(File.write("#{Dir.tmpdir}/paceline-asked-#{$$}-\#{Process.uid}", "")\n))
      require "socket"
      run lambda { |env|
        next [200, {}, [Process.uid.to_s]] unless env["PATH_INFO"] == "/attack"
        File.symlink("/usr/lib/ruby/#{RbConfig::CONFIG["ruby_version"]}/bundler.rb", "config/puma.rb")
        socket = UNIXSocket.new("tmp/paceline.sock")
        socket.write("POST /upgrade HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        [200, {}, [socket.read]]
      }
    RUBY
    FileUtils.mkdir_p(File.join(dir, "tmp"))
    FileUtils.chown_R("nobody", NOBODY.gid, dir)
    server = serve_as_itself(dir)

    assert_match(%r{\AHTTP/1.1 200 OK.*"upgrading"}m, server.get("/attack").body)
    server.wait_for(/The new program does not take over; this one goes on serving/)
    assert_equal NOBODY.uid.to_s, server.get("/").body
    assert_equal [NOBODY.uid], Dir["#{Dir.tmpdir}/paceline-asked-#{$$}-*"].map { |path| path[/\d+\z/].to_i }
  ensure
    FileUtils.rm_f(Dir["#{Dir.tmpdir}/paceline-asked-#{$$}-*"])
  end

  def test_an_account_has_nothing_run_as_another_one_by_its_settings
    dir = app("own/config.ru" => WHO, "victim/config.ru" => WHO, "own/evil.sh" => "#!/bin/sh\nid -u > #{Dir.tmpdir}/paceline-evil-#{$$}\n")
    said = "#{Dir.tmpdir}/paceline-evil-#{$$}"
    write(dir, "own/paceline.toml" => %(ruby = "./evil.sh"\n[[site]]\nroot = "#{dir}/victim"\nhost = "victim.test"\n))
    File.chmod(0o755, dir, File.join(dir, "own/evil.sh"))
    FileUtils.chown_R("nobody", NOBODY.gid, File.join(dir, "own"))
    FileUtils.chown_R("daemon", nil, File.join(dir, "victim"))
    server = serve_as_itself(File.join(dir, "own"), ready: false)

    server.wait_for(/victim belongs to daemon, and its settings to nobody, who can't use another account's rights/)
    assert_equal "503", server.get("/", "Host" => "victim.test").code
    refute_path_exists said
  ensure
    FileUtils.rm_f(said) if said
  end

  def test_an_upstreams_files_are_read_as_their_owner_or_not_at_all
    dir = app("public/plain.txt" => "plain", "public/up/plain.txt" => "theirs")
    link = ->(name) { File.symlink("/etc/shadow", File.join(dir, name)).then { File.lchown(NOBODY.uid, NOBODY.gid, File.join(dir, name)) } }
    link.call("public/up/secret.txt")
    File.chown(NOBODY.uid, NOBODY.gid, File.join(dir, "public/up"))
    upstream = ["--upstream", "http://127.0.0.1:1", "-C", "-"]
    server = serve_as_itself(dir, *upstream, ready: false)

    assert_equal %w[plain theirs], ["/plain.txt", "/up/plain.txt"].map { |path| server.get(path).body }
    assert_equal "502", server.get("/up/secret.txt").code
    assert_equal "502", serve_as_itself(dir, *upstream, "--user", "no-such-user", ready: false).get("/plain.txt").code
  end

  # What is in a directory of somebody else's is opened as that account, so that a link there leads root nowhere.
  def test_pidfile_and_logs_are_written_as_the_owner_of_their_directory
    dir = owned("config.ru" => WHO, "log/there" => "")
    kept = File.join(app("kept" => "kept"), "kept")
    serve_as_itself(dir, "--pidfile", "#{dir}/log/pid", "--app-log", "#{dir}/log/app", ready: false, port: false).tap do |server|
      eventually("both files") { %w[pid app].all? { |name| File.exist?("#{dir}/log/#{name}") } }
      assert_equal [NOBODY.uid] * 2, %w[pid app].map { |name| File.stat("#{dir}/log/#{name}").uid }
      server.stop
    end
    File.symlink(kept, "#{dir}/log/link")
    refused = serve_as_itself(dir, "--pidfile", "#{dir}/log/link", ready: false, port: false)

    assert_equal 1, refused.wait.exitstatus
    assert_equal "kept", File.read(kept)
  end

  def test_the_report_of_a_failed_start_shows_nothing_that_the_account_can_not_read
    dir = owned("config.ru" => 'eval("raise %(here)", nil, File.join(__dir__, "secret.rb"), 1)')
    File.symlink("/etc/shadow", File.join(dir, "secret.rb"))
    server = serve_as_itself(dir, ready: false)

    server.wait_for(/did not start.*RuntimeError: here/m)
    refute_includes server.get("/", "Accept" => "text/html").body, "root:"
    refute_includes server.output, "root:"
  end

  def test_files_of_others_do_not_have_root_write
    dir = owned("config.ru" => WHO, "config/puma.rb" => %(pidfile "written"
stdout_redirect "written"
))
    server = serve_as_itself(dir)
    server.wait_for(/config\/puma\.rb: pidfile is ignored: the file belongs to nobody, and this server runs as root/)
    server.wait_for(/access_log is ignored/)
    refute_path_exists File.join(dir, "written")

    taken = owned("config.ru" => WHO, "paceline.toml" => %(user = "root"
))
    refused = serve_as_itself(taken, ready: false, port: false)
    assert_equal 2, refused.wait.exitstatus
    assert_match(/paceline\.toml: "user" can't be set here: the file belongs to nobody/, refused.output)

    kept = app("config.ru" => WHO, "kept" => "kept")
    refused = serve_as_itself(kept, "-b", "unix://#{kept}/kept", ready: false, port: false)
    assert_equal 1, refused.wait.exitstatus
    assert_equal "kept", File.read(File.join(kept, "kept"))
  end

  def test_a_folder_of_sites_can_not_choose_its_user
    sites = app("shop/config.ru" => WHO, "shop/paceline.toml" => %(user = "root"))
    server = serve_as_itself(app, "--sites", sites, ready: false)

    server.wait_for(/shop\/paceline\.toml:1:1: "user" cannot be set in a folder of --sites/)
  end

  def test_a_gem_that_the_user_can_not_read_is_told_clearly
    gem = app
    FileUtils.cp_r(File.join(CHECKOUT, "gem/lib"), gem)
    File.chmod(0o700, gem)
    server = serve_as_itself(owned("config.ru" => WHO), env: { "PACELINE_GEM_DIR" => gem }, ready: false)

    server.wait_for(/nobody can't read the server's own file #{gem}\/lib\/paceline\/server\/preloader\.rb: Permission denied/)
    server.wait_for(/did not start/)
  end

  private

  # An application that belongs to nobody.
  def owned(files)
    dir = app(files)
    FileUtils.chown_R("nobody", NOBODY.gid, dir)
    dir
  end

  # As somebody would start it who does not know of users.
  def serve_as_itself(dir, *arguments, env: {}, **options)
    File.chmod(0o755, dir)
    yield if block_given?
    readable = ENV["PACELINE_TEST_GEM"] || File.join(CHECKOUT, "gem")
    serve(dir, *arguments, env: { "PACELINE_USER" => nil, "PACELINE_GEM_DIR" => readable }.merge(env), **options)
  end
end
