# Several applications in one server: by host name, and found in a folder.
require_relative "../support/scenario"

class SitesTest < Minitest::Test
  include Scenario

  def says(text) = "run ->(env) { [200, {}, [#{text.inspect}, ' ', ENV['RACK_ENV']]] }\n"

  def ask(server, host, path = "/", headers = {})
    server.get(path, headers.merge("Host" => host))
  end

  def body(server, host) = ask(server, host).body

  # A folder with one more folder for each site.
  def sites(**files) = app(files.to_h { |name, content| [name.to_s, content] })

  # A folder that is there with all its files at once: none is a site while its name begins with a dot.
  def whole(dir, name, files)
    write(dir, files.transform_keys { |file| ".#{name}/#{file}" })
    File.rename(File.join(dir, ".#{name}"), File.join(dir, name))
  end

  def test_sites_of_the_configuration_are_chosen_by_host
    dir = app("a/config.ru" => says("exact"), "b/config.ru" => says("wildcard"), "c/config.ru" => says("longer wildcard"), "d/config.ru" => says("fallback"),
      "files/index.html" => "plain files", "paceline.toml" => <<~TOML)
        environment = "staging"
        [[site]]
        host = ["shop.test", "www.shop.test"]
        root = "a"
        [[site]]
        host = "*.shop.test"
        root = "b"
        [[site]]
        host = "*.eu.shop.test"
        root = "c"
        environment = "test"
        [[site]]
        host = "files.test"
        root = "files"
        [[site]]
        name = "rest"
        root = "d"
      TOML
    server = serve(dir, "-w", "1", ready: false)

    assert_equal "exact staging", body(server, "shop.test")
    assert_equal "exact staging", body(server, "WWW.Shop.TEST.:3000")
    assert_equal "wildcard staging", body(server, "x.y.shop.test")
    assert_equal "longer wildcard test", body(server, "x.eu.shop.test")
    assert_equal "plain files", body(server, "files.test")
    assert_equal "fallback staging", body(server, "eu.shop.tests")
    assert_equal 0, server.stop.exitstatus
  end

  def test_a_host_that_no_site_has_gets_404
    toml = "[[site]]\nhost = \"shop.test\"\nroot = \"shop\"\n"
    dir = app("shop/config.ru" => says("shop"), "paceline.toml" => toml)
    server = serve(dir, ready: false)
    answer = ask(server, "other.test", "/", "Accept" => "text/html")
    assert_equal "404", answer.code
    assert_match(/No site is named other\.test/, answer.body)
    assert_match(%r{href="http://shop\.test:#{server.port}/"}, answer.body)

    server = serve(dir, "-e", "production", ready: false)
    answer = ask(server, "other.test", "/", "Accept" => "text/html")
    assert_equal "421", answer.code
    refute_match(/shop/, answer.body)
  end

  def test_each_folder_is_a_site_also_one_that_comes_while_running
    dir = app("shop/config.ru" => says("shop"), "manual/index.html" => "the manual", ".hidden/config.ru" => says("hidden"), "notes.txt" => "no site")
    server = serve(dir, "--sites", dir, ready: false)

    refute_match(/is ready/, server.output)
    assert_equal "shop development", body(server, "shop.localhost")
    assert_equal "shop development", body(server, "shop")
    assert_equal "shop development", body(server, "shop.test:80")
    assert_equal "the manual", body(server, "manual.localhost")
    listed = ask(server, "blog.localhost", "/", "Accept" => "text/html")
    assert_equal "404", listed.code
    assert_equal %w[manual shop], listed.body.scan(%r{href="http://(\w+)\.localhost:#{server.port}/"}).flatten.sort

    whole(dir, "blog", "config.ru" => says("blog"))
    server.wait_for(/^\* Site blog: /)
    assert_equal "blog development", body(server, "blog.localhost")

    ruby = server.workers.size
    FileUtils.rm_rf(File.join(dir, "shop"))
    server.wait_for(/^\* Site shop is gone$/)
    assert_equal "404", ask(server, "shop.localhost").code
    eventually("the shop's processes to go") { server.workers.size < ruby }
    assert_equal "blog development", body(server, "blog.localhost")
    whole(dir, "late", "config.ru" => says("late"))
    server.wait_for(/^\* Site late: /)
    server.signal(:USR1)
    server.wait_for(/blog is ready: .*blog is ready: /m)
    # A site that nobody has asked for is not started by a restart.
    eventually("one generation of the blog alone") { server.preloaders.map { |pid| server.title(pid)[/\[(.*)\]/, 1] } == ["blog"] }
    assert_equal 0, server.stop.exitstatus
  end

  def test_a_folder_of_files_that_becomes_an_application
    dir = app("shop/index.html" => "soon")
    server = serve(dir, "--sites", dir, ready: false)
    assert_equal "soon", body(server, "shop.localhost")

    write(dir, "shop/config.ru" => says("open"))
    File.delete(File.join(dir, "shop/index.html"))
    server.wait_for(/^\* shop: its settings or files have changed; starting it again$/)
    assert_equal "open development", body(server, "shop.localhost")
  end

  def test_a_folder_of_files_that_becomes_an_application_without_sites
    dir = app("index.html" => "soon")
    server = serve(dir, ready: false)
    assert_equal "soon", server.get("/").body
    write(dir, "config.ru" => says("open"))
    File.delete(File.join(dir, "index.html"))
    server.wait_for(/its settings or files have changed/)
    eventually("the app") { server.get("/").body == "open development" }
  end

  def test_each_folder_has_settings_of_its_own_and_they_may_change
    dir = app("shop/config.ru" => says("shop"), "shop/paceline.toml" => "environment = \"staging\"\nenv = { GREETING = \"hello\" }\n",
      "blog/config.ru" => says("blog"), "late/releases/1/config.ru" => says("first release"))
    File.symlink("releases/1", File.join(dir, "late/current"))
    server = serve(dir, "--sites", dir, ready: false)
    assert_equal "shop staging", body(server, "shop")
    assert_equal "blog development", body(server, "blog")
    assert_equal "first release development", body(server, "late")

    write(dir, "shop/paceline.toml" => "environment = \"test\"\n")
    server.wait_for(/^\* shop: its settings or files have changed/)
    assert_equal "shop test", body(server, "shop")
  end

  def test_a_broken_paceline_toml_is_its_own_site_s_affair
    dir = app("shop/config.ru" => says("shop"), "blog/config.ru" => says("blog"), "blog/paceline.toml" => "wrokers = 2\n")
    server = serve(dir, "--sites", dir, ready: false)

    server.wait_for(/^\* Site blog: .*blog\/paceline\.toml:1:1: unknown key "wrokers"/)
    assert_equal "shop development", body(server, "shop")
    answer = ask(server, "blog", "/", "Accept" => "text/html")
    assert_equal "503", answer.code
    assert_match(/wrokers/, answer.body)

    write(dir, "blog/paceline.toml" => "workers = 2\n")
    eventually("the mended site") { body(server, "blog") == "blog development" }

    # One that serves goes on with what it has.
    write(dir, "shop/paceline.toml" => "nonsense\n")
    server.wait_for(/^\* Site shop: .*shop\/paceline\.toml:1/)
    assert_equal "shop development", body(server, "shop")
    assert_equal 0, server.stop.exitstatus
  end

  def test_one_site_that_does_not_start_leaves_the_others_alone
    dir = app("shop/config.ru" => says("shop"), "blog/config.ru" => "raise 'broken'\n")
    server = serve(dir, "--sites", dir, ready: false)
    assert_equal %w[503 200], %w[blog shop].map { |host| ask(server, host).code }
    write(dir, "blog/config.ru" => says("mended"))
    eventually("the mended site") { body(server, "blog") == "mended development" }
  end

  # Whatever lies in a folder, its reader does not wait for it, and takes no more of it than a bound.
  def test_one_folder_that_makes_its_reader_wait_stops_nobody
    dir = app("shop/config.ru" => says("shop"), "large/index.html" => "large", "queue/index.html" => "", "errors/index.html" => "errors", "slow/x" => "")
    %w[slow/a.rb queue/paceline.toml].each { |name| File.mkfifo(File.join(dir, name)) }
    FileUtils.mkdir(File.join(dir, "errors/public"))
    File.mkfifo(File.join(dir, "errors/public/404.html"))
    File.open(File.join(dir, "large/paceline.toml"), "w") { |file| file.truncate(700 << 20) }
    File.symlink("/dev/zero", File.join(dir, "slow/b.rb"))
    server = serve(dir, "--sites", dir, ready: false)

    assert_equal "shop development", body(server, "shop")
    server.wait_for(/large\/paceline\.toml: cannot be read: it is larger than 1024 KB/)
    server.wait_for(/queue\/paceline\.toml: cannot be read: it is no regular file/)
    assert_equal "404", ask(server, "errors", "/none", "Accept" => "text/html").code
    assert_operator File.read("/proc/#{server.pid}/status")[/VmHWM:\s+(\d+)/, 1].to_i, :<, 300 << 10
    assert_equal 0, server.stop.exitstatus
  end

  # The server is root, and the folders are of several accounts.
  def test_folders_of_several_accounts
    skip "only root serves several accounts" unless Process.uid.zero?
    evil = "#{Dir.tmpdir}/paceline-evil-sites-#{$$}"
    dir = app("unknown/public/x" => "", "files/index.html" => "files", "files/up/theirs.txt" => "theirs", "victim/any" => "run ->(e) { [200, {}, []] }", "victim/index.html" => "",
      "thief/evil.sh" => "#!/bin/sh\nid -u > #{evil}\n", "thief/paceline.toml" => %(rackup = "../victim/any"\nruby = "./evil.sh"\nkind = "rack"\n),
      "linked/evil.sh" => "#!/bin/sh\nid -u > #{evil}\n", "linked/paceline.toml" => %(ruby = "./evil.sh"\n),
      "shelf/paceline.toml" => %(public = "/root"\n), "shelf/config.ru" => says("shelf"))
    { "unknown/config.ru" => "/etc/hostname", "unknown/public/secret.txt" => "/etc/shadow", "files/up/secret.txt" => "/etc/shadow",
      "linked/config.ru" => "#{dir}/victim/any" }.each { |name, to| File.symlink(to, File.join(dir, name)) }
    FileUtils.mkdir(File.join(dir, "stolen"))
    File.symlink("#{dir}/victim", File.join(dir, "stolen/current"))
    File.chmod(0o755, dir, *Dir["#{dir}/*/evil.sh"])
    %w[unknown thief linked stolen].each { |name| system("chown", "-hR", "nobody:nogroup", File.join(dir, name), exception: true) }
    system("chown", "-hR", "nobody:nogroup", File.join(dir, "files/up"), exception: true)
    FileUtils.chown_R("daemon", nil, File.join(dir, "victim"))
    gem = ENV["PACELINE_TEST_GEM"] || File.join(CHECKOUT, "gem")
    server = serve(dir, "--sites", dir, ready: false, env: { "PACELINE_USER" => nil, "PACELINE_GEM_DIR" => gem })

    refute_includes ask(server, "unknown", "/secret.txt").body, "root:"
    assert_equal %w[files theirs], ["/", "/up/theirs.txt"].map { |path| ask(server, "files", path).body }
    assert_equal "404", ask(server, "files", "/up/secret.txt").code
    assert_match(/any is outside of \S+thief/, ask(server, "thief").body)
    assert_equal "404", ask(server, "stolen", "/any").code
    server.wait_for(/Site stolen: no files are served: \S+stolen\/current belongs to daemon, but others can write in \S+stolen/)
    assert_equal "503", ask(server, "linked").code
    # As the folder's own account, not as the owner of what the link leads to.
    assert_equal Etc.getpwnam("nobody").uid.to_s, File.read(evil).strip
    assert_equal "503", ask(server, "shelf").code
  ensure
    FileUtils.rm_f(evil) if evil
  end

  def test_an_empty_folder_of_sites_is_served_and_watched
    dir = app
    server = serve(dir, "--sites", dir, ready: false)
    assert_match(/no sites yet/, ask(server, "shop.localhost", "/", "Accept" => "text/html").body)
    whole(dir, "shop", "index.html" => "first")
    server.wait_for(/^\* Site shop: /)
    assert_equal "first", body(server, "shop.localhost")
  end

  APPLICATION = { "config.ru" => "run ->(env) { [200, {}, [Process.ppid.to_s]] }\n", "Gemfile.txt" => "", "secret.key" => "secret", "config/master.key" => "secret" }.freeze

  # Looks at the folder of sites until it has looked at it twice more.
  def looked_at(server, dir)
    2.times do |time|
      whole(dir, "look-#{time}", "index.html" => "")
      server.wait_for(/^\* Site look-#{time}: /)
      FileUtils.rm_rf(File.join(dir, "look-#{time}"))
    end
  end

  def test_an_application_whose_rackup_file_is_away_for_a_moment_never_becomes_a_folder_of_files
    dir = app(APPLICATION.to_h { |name, text| ["shop/#{name}", text] })
    server = serve(dir, "--sites", dir, ready: false)
    preloader = body(server, "shop")
    File.rename(File.join(dir, "shop/config.ru"), File.join(dir, "config.ru.away"))
    FileUtils.rm_rf(File.join(dir, "shop/config"))
    looked_at(server, dir)
    assert_equal preloader, ask(server, "shop", "/secret.key").body
    File.rename(File.join(dir, "config.ru.away"), File.join(dir, "shop/config.ru"))
    looked_at(server, dir)
    assert_equal preloader, body(server, "shop")
    refute_match(/shop: its settings or files have changed/, server.output)
  end

  def test_a_restart_without_a_rackup_file_fails_and_the_old_generation_goes_on
    dir = app("config.ru" => "run ->(env) { [200, {}, ['up']] }\n", "secret.key" => "secret", "tmp/.keep" => "")
    server = serve(dir, "-w", "1")
    File.rename(File.join(dir, "config.ru"), File.join(dir, "config.away"))
    server.signal(:USR1)
    server.wait_for(/no config\.ru, no config\/environment\.rb and no file that requires Sinatra(?:.*\n)*.*the old one goes on serving/)
    assert_equal "up", server.get("/secret.key").body
  end

  def test_an_application_whose_folder_is_away_for_a_moment_goes_on
    dir = app(APPLICATION.to_h { |name, text| ["shop/#{name}", text] }.merge("blog/releases/1/config.ru" => APPLICATION["config.ru"], "blog/shared/secret" => "secret"))
    current = File.join(dir, "blog/current")
    File.symlink("releases/1", current)
    server = serve(dir, "--sites", dir, ready: false)
    shop, blog = %w[shop blog].map { |host| body(server, host) }
    File.rename(File.join(dir, "shop"), File.join(dir, ".shop"))
    File.delete(current)
    looked_at(server, dir)
    assert_equal [shop, blog, blog], [body(server, "shop"), body(server, "blog"), ask(server, "blog", "/shared/secret").body]
    File.symlink("releases/none", current)
    looked_at(server, dir)
    assert_equal blog, ask(server, "blog", "/shared/secret").body
    File.rename(File.join(dir, ".shop"), File.join(dir, "shop"))
    File.delete(current)
    File.symlink("releases/1", current)
    looked_at(server, dir)
    assert_equal [shop, blog], [body(server, "shop"), body(server, "blog")]
    refute_match(/its settings or files have changed|is gone/, server.output.gsub(/Site look-\d is gone/, ""))
  end

  def test_a_site_whose_current_leads_nowhere_publishes_no_releases
    dir = app("shop/releases/1/config/master.key" => "secret")
    server = serve(dir, "--sites", dir, ready: false)
    refute_includes ask(server, "shop", "/releases/1/config/master.key").body, "secret"
  end

  def test_a_rackup_file_of_another_name_is_served_as_an_application
    files = { "shop.ru" => "run ->(env) { [200, {}, ['shop']] }\n", "config/database.yml" => "secret" }
    assert_equal "shop", serve(app(files), "shop.ru").get("/config/database.yml").body
    assert_equal "shop", serve(app(files.merge("paceline.toml" => "rackup = \"shop.ru\"\n"))).get("/config/database.yml").body
  end

  def test_a_folder_that_looks_like_an_application_is_no_folder_of_files
    dir = app("Gemfile" => "", "config/database.yml" => "secret")
    server = serve(dir, ready: false)
    answer = server.get("/config/database.yml", "Accept" => "text/html")
    assert_equal "503", answer.code
    assert_match(/has Gemfile, but no config\.ru/, answer.body)
    write(dir, "paceline.toml" => "kind = \"files\"\n")
    assert_equal "secret", serve(dir, ready: false).get("/config/database.yml").body
  end

  def test_every_setting_of_a_folder_is_obeyed
    page = "run ->(env) { [200, { 'content-type' => 'text/plain' }, ['x' * 5000]] }\n"
    dir = app("shop/config.ru" => page, "blog/config.ru" => page, "blog/paceline.toml" => "compress = false\n[[rate_limit]]\npath = \"/once\"\nrate = \"1/h\"\n")
    server = serve(dir, "--sites", dir, ready: false)
    coding = ->(host) { ask(server, host, "/", "Accept-Encoding" => "gzip")["content-encoding"] }
    assert_equal ["gzip", nil], [coding["shop"], coding["blog"]]
    assert_equal %w[200 429], Array.new(2) { ask(server, "blog", "/once").code }
    assert_equal %w[200 200], Array.new(2) { ask(server, "shop", "/once").code }
  end
end
