# `paceline rollback`: back to the release before, with its preloader where that is kept, and otherwise by booting it anew.
require_relative "../support/scenario"
require_relative "../support/control"

class RollbackTest < Minitest::Test
  include Scenario
  include Control

  # Counts how often it is loaded.
  APP = <<~RUBY
    version = File.read(File.join(__dir__, "version"))
    File.write(File.join(__dir__, "../../loaded"), version, mode: "a")
    run ->(env) { [200, {}, [version]] }
  RUBY

  def deployed(*arguments)
    dir = app("paceline.toml" => "[[site]]\nroot = \"current\"\nname = \"shop\"\n", "tmp/.keep" => "")
    %w[1 2 3].each { |number| write(dir, "releases/#{number}/config.ru" => APP, "releases/#{number}/version" => number) }
    switch(dir, 1)
    [dir, serve(dir, "-w", "2", "-e", "production", "--ready-path", "off", "--control", "tmp/paceline.sock", *arguments)]
  end

  def switch(dir, number)
    link = File.join(dir, "current")
    File.symlink("releases/#{number}", "#{link}.new")
    File.rename("#{link}.new", link)
  end

  def deploy(dir, server, number)
    switch(dir, number)
    eventually("release #{number}") { server.get("/").body == number.to_s }
  end

  def roll_back(dir, *more) = command(dir, "rollback", "--wait", "--control", "tmp/paceline.sock", *more)

  def loaded(dir) = File.read(File.join(dir, "loaded"))

  def roles(server) = generations(server)["generations"].map { |one| one.values_at("role", "number") }

  def test_the_kept_preloader_forks_workers_without_loading_anything
    dir, server = deployed
    deploy(dir, server, 2)
    eventually("the workers of the first generation to go") { roles(server) == [["current", 2], ["previous", 1]] }
    assert_equal [], generations(server)["generations"][1]["workers"]

    out, status = roll_back(dir)
    assert_equal 0, status
    assert_match(/\Ashop is back on generation 1 \(#{dir}\/releases\/1\): production, 2 x 3 threads, ruby .*\n\z/, out)
    assert_equal ["1", "12"], [server.get("/").body, loaded(dir)]
    server.wait_for(/shop: going back from generation 2 to generation 1 \(\S+\/releases\/1\)$/)
    eventually("the second generation to go") { roles(server) == [["current", 1]] }
    assert_equal 3, server.descendants.size

    assert_equal ["paceline: shop: nothing to roll back to: no restart since the server started, or it is already rolled back\n", 1], roll_back(dir)
    # The release that was gone back from stays out until it is asked for, also when what serves has to be booted anew.
    Process.kill(:KILL, server.preloaders.first)
    server.wait_for(/starting it again(?:.*\n)*.* is ready: /)
    assert_equal "1", server.get("/").body
    FileUtils.mkdir_p(File.join(dir, "current/tmp"))
    FileUtils.touch(File.join(dir, "current/tmp/restart.txt"), mtime: Time.now + 60)
    eventually("the second release") { server.get("/").body == "2" }
  end

  def test_while_a_request_is_still_in_the_old_generation_s_hands
    dir, server = deployed
    gate, entered = barrier(dir), barrier(dir, "entered")
    held_app = <<~RUBY
      version = File.read(File.join(__dir__, "version"))
      run ->(env) do
        if env["PATH_INFO"] == "/held"
          File.write("#{entered.path}", "x")
          File.read("#{gate.path}")
        end
        [200, {}, [version]]
      end
    RUBY
    write(dir, "releases/3/config.ru" => held_app)
    deploy(dir, server, 3)
    held = Thread.new { server.get("/held").body }
    entered.wait
    deploy(dir, server, 2)
    assert_equal 0, roll_back(dir).last
    assert_equal "3", server.get("/").body
    gate.open
    assert_equal "3", held.value
    eventually("two workers and a preloader") { server.descendants.size == 3 }
    assert_equal "3", server.get("/").body
  end

  def test_without_a_preloader_the_release_is_booted_anew
    dir, server = deployed("--keep-previous", "off")
    deploy(dir, server, 2)
    out, status = roll_back(dir)
    assert_equal 0, status
    assert_match(/is back on generation 3 \(#{dir}\/releases\/1\)/, out)
    assert_equal ["1", "121"], [server.get("/").body, loaded(dir)]
  end

  def test_a_kept_preloader_that_was_lost_is_booted_anew
    dir, server = deployed
    deploy(dir, server, 2)
    eventually("the workers of the first generation to go") { roles(server) == [["current", 2], ["previous", 1]] }
    Process.kill(:KILL, generations(server)["generations"][1]["preloader_pid"])
    eventually("it to be noticed") { roles(server) == [["current", 2]] }
    assert_equal 0, roll_back(dir).last
    assert_equal ["1", "121"], [server.get("/").body, loaded(dir)]
  end

  def test_only_one_release_is_kept_and_not_for_ever
    dir, server = deployed("--keep-previous", "1s")
    deploy(dir, server, 2)
    deploy(dir, server, 3)
    eventually("the time to be over") { roles(server) == [["current", 3]] }
    assert_equal 3, server.descendants.size
  end

  def test_in_one_folder_there_is_nothing_to_boot
    dir = app("config.ru" => "run ->(env) { [200, {}, ['ok']] }")
    server = serve(dir)
    assert_match(/nothing to roll back to: no restart since the server started/, command(dir, "rollback").first)
    assert_equal 0, command(dir, "restart", "--wait").last
    out, status = command(dir, "rollback")
    assert_equal 1, status
    assert_match(/nothing to roll back to: keep_previous is off, and the previous release is not in a folder of its own$/, out)
    assert_equal "ok", server.get("/").body
  end

  def test_in_one_folder_the_kept_preloader_has_the_code_of_before
    dir = app("config.ru" => "version = File.read('version')\nrun ->(env) { [200, {}, [version]] }", "version" => "old")
    server = serve(dir, "--keep-previous", "10m")
    write(dir, "version" => "new")
    assert_equal 0, command(dir, "restart", "--wait").last
    assert_equal "new", server.get("/").body
    assert_equal 0, command(dir, "rollback", "--wait").last
    assert_equal "old", server.get("/").body
    assert_equal 0, server.stop.exitstatus
  end
end
