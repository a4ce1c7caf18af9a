# A deployment as Capistrano does it: a folder for each release, and `current` is made to lead to the new one.
require_relative "../support/scenario"
require_relative "../support/control"

class DeploySymlinkTest < Minitest::Test
  include Scenario
  include Control

  APP = <<~RUBY
    version = File.read(File.join(__dir__, "version"))
    run ->(env) { [200, {}, ["\#{version} from \#{File.basename(__dir__)}"]] }
  RUBY

  def release(dir, number)
    write(dir, "releases/#{number}/config.ru" => APP, "releases/#{number}/version" => "v#{number}", "releases/#{number}/tmp/.keep" => "")
  end

  # As `ln -s` and `mv -T` do it: nobody ever sees no link.
  def switch(dir, number)
    link = File.join(dir, "current")
    File.symlink("releases/#{number}", "#{link}.new")
    File.rename("#{link}.new", link)
  end

  def deployed(*arguments, settings: "", **options)
    dir = app("paceline.toml" => "[[site]]\nroot = \"current\"\nname = \"shop\"\n#{settings}", "tmp/.keep" => "")
    release(dir, 1)
    switch(dir, 1)
    [dir, serve(dir, "-w", "1", *arguments, **options)]
  end

  def numbers(server) = generations(server)["generations"].map { |one| [one["role"], one["number"]] }

  def test_a_switch_of_current_is_a_restart_through_the_new_real_path
    dir, server = deployed("--control", "tmp/paceline.sock")
    assert_equal "v1 from 1", server.get("/").body
    release(dir, 2)
    switch(dir, 2)
    server.wait_for(/the release is \S*releases\/2 now\n(?:.*\n)*.* is ready: /)
    eventually("the new release") { server.get("/").body == "v2 from 2" }
    eventually("the first generation to go") { numbers(server) == [["current", 2]] }
    assert_equal File.join(dir, "releases/2"), generations(server)["generations"][0]["release"]
  end

  def test_a_switch_and_the_touch_that_goes_with_it_boot_once
    dir, server = deployed("--control", "tmp/paceline.sock")
    release(dir, 2)
    switch(dir, 2)
    server.wait_for(/the release is/)
    FileUtils.touch(File.join(dir, "current/tmp/restart.txt"))
    server.wait_for(/ is ready: .* is ready: /m)
    # A third generation, asked for by hand, would be the fourth had the touch counted.
    write(dir, "releases/2/version" => "v3")
    assert_equal 0, command(dir, "restart", "--wait", "--control", "tmp/paceline.sock").last
    assert_equal "v3 from 2", server.get("/").body
    eventually("the second generation to go") { numbers(server) == [["current", 3]] }
    refute_match(/tmp\/restart.txt was touched/, server.output)

    # Until it is heard: one that is seen together with the first belongs to the switch as well.
    later = 10
    eventually("a touch to be heard") do
      FileUtils.touch(File.join(dir, "current/tmp/restart.txt"), mtime: Time.now + (later += 1))
      server.output.include?("tmp/restart.txt was touched")
    end
    server.wait_for(/tmp\/restart.txt was touched\n(?:.*\n)*.* is ready: /)
    eventually("the third generation to go") { numbers(server).then { |all| all.size == 1 && all[0][1] >= 4 } }
  end

  def test_a_release_that_does_not_start_leaves_the_old_one_serving_also_when_its_preloader_dies
    dir, server = deployed("--control", "tmp/paceline.sock")
    write(dir, "releases/2/config.ru" => "raise 'broken release'")
    switch(dir, 2)
    server.wait_for(/RuntimeError: broken release.*the new generation did not start; the old one goes on serving$/m)
    assert_equal "v1 from 1", server.get("/").body

    Process.kill(:KILL, server.preloaders.first)
    server.wait_for(/the preloader \(pid \d+\) .* starting it again(?:.*\n)*.* is ready: /)
    assert_equal "v1 from 1", server.get("/").body
  end

  def test_started_inside_current_by_a_shell_it_follows_the_link
    dir = app
    release(dir, 1)
    switch(dir, 1)
    server = serve(File.join(dir, "current"), "-w", "1", env: { "PWD" => File.join(dir, "current") })
    release(dir, 2)
    switch(dir, 2)
    server.wait_for(/the release is \S*releases\/2 now\n(?:.*\n)*.* is ready: /)
    eventually("the new release") { server.get("/").body == "v2 from 2" }
  end
end
