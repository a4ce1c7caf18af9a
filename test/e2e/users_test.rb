# Who an application runs as when the server is root: nobody's files run as nobody, root's files run only if that is said.
require_relative "support/scenario"
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

  def test_an_application_runs_as_the_owner_of_its_main_file
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

  def test_root_is_refused_unless_it_is_meant
    dir = app("config.ru" => WHO)
    server = serve_as_itself(dir, ready: false)
    server.wait_for(/it would run as root, the owner of #{Regexp.escape(dir)}\/config\.ru: set `user = "deploy"`, or `user = "root"` if you mean it/)
    answer = server.get("/", "Accept" => "text/html")

    assert_equal "503", answer.code
    assert_includes answer.body, "would run as root"
    refute_includes server.output, "loading as"
    assert_empty server.descendants
    assert_equal 0, server.stop.exitstatus

    meant = serve_as_itself(dir, "--user", "root")
    assert_equal 0, eval(meant.get("/").body).first
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
    server = serve_as_itself(dir, ready: false)
    server.wait_for(/would run as root/)

    FileUtils.chown_R("nobody", NOBODY.gid, dir)

    server.wait_for(/ is ready: /)
    assert_equal NOBODY.uid, eval(server.get("/").body).first
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

    server.wait_for(/shop\/paceline\.toml:1:1: "user" cannot be set by one folder of --sites/)
  end

  def test_a_gem_that_the_user_can_not_read_is_told_clearly
    gem = app
    FileUtils.cp_r(File.join(CHECKOUT, "gem/lib"), gem)
    File.chmod(0o700, gem)
    server = serve_as_itself(owned("config.ru" => WHO), env: { "PACELINE_GEM_DIR" => gem }, ready: false)

    server.wait_for(/nobody can't read the server's own file #{gem}\/lib\/paceline\/preloader\.rb: Permission denied/)
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
    readable = ENV["PACELINE_TEST_GEM"] || File.join(CHECKOUT, "gem")
    serve(dir, *arguments, env: { "PACELINE_USER" => nil, "PACELINE_GEM_DIR" => readable }.merge(env), **options)
  end
end
