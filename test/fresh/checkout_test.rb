# frozen_string_literal: true

# What bin/paceline, bin/setup, bin/demo and bin/modern say and choose, in a checkout with nothing in it but these, and on systems that are not this one.
#
#   ruby test/fresh/checkout_test.rb
require "minitest/autorun"
require "fileutils"
require "open3"
require "tmpdir"

class CheckoutTest < Minitest::Test
  HERE = File.expand_path("../..", __dir__)

  def setup
    @checkout = Dir.mktmpdir
    FileUtils.mkdir_p(%w[bin examples/brewery tools].map { |dir| File.join(@checkout, dir) })
    %w[paceline setup demo test].each { |name| FileUtils.cp("#{HERE}/bin/#{name}", "#{@checkout}/bin/") }
    FileUtils.cp("#{HERE}/Cargo.toml", @checkout)
    script("bin/native", "exit 0")
  end

  def teardown = FileUtils.rm_rf(@checkout)

  def test_the_release_build_comes_first_then_the_demo_s_which_says_so_once
    build("demo", "paceline 1.0 (demo build)")
    said, out = run_paceline("status")
    assert_equal "demo status\n", out
    assert_match(/\Abin\/paceline: this is the quickly compiled build of bin\/demo; bin\/build makes the release build.*\n\z/, said)
    assert_equal ["", "demo status\n"], run_paceline("status"), "it says so once"

    build("release", "paceline 1.0")
    assert_equal ["", "release status\n"], run_paceline("status")
  end

  def test_it_says_that_the_native_part_is_compiled_and_not_why_it_can_t_be
    script("bin/native", "echo 'bin/native: compiling the native part of the gem, half a minute' >&2; echo 'gcc: not found' >&2; exit 1")
    build("release", "paceline 1.0")
    assert_equal ["bin/native: compiling the native part of the gem, half a minute\n", "release status\n"], run_paceline("status")
  end

  def test_a_newer_demo_build_says_so_again
    build("demo", "paceline 1.0 (demo build)")
    run_paceline("status")
    File.utime(Time.now + 60, Time.now + 60, "#{@checkout}/target/demo/paceline")
    assert_match(/quickly compiled/, run_paceline("status").first)
  end

  def test_where_nothing_is_built_it_says_what_to_run_and_builds_nothing
    script("bin/build", "echo built > #{@checkout}/built")
    script("tools/cargo", "echo built > #{@checkout}/built")
    [%w[status], %w[-p 4000], []].each do |arguments|
      said, out, status = run_in_checkout("bin/paceline", *arguments)
      assert_equal [1, ""], [status, out]
      assert_match(/\Abin\/paceline: nothing is built yet: run bin\/demo.*bin\/build.*\n\z/, said)
    end
    refute File.exist?("#{@checkout}/built")
  end

  def test_macos_is_told_in_one_sentence_that_it_is_linux_that_is_needed
    script("tools/uname", "echo Darwin")
    %w[setup demo test].each do |name|
      said, _, status = run_in_checkout("bin/#{name}")
      assert_equal 1, status, said
      assert_match(/\Abin\/setup: Paceline needs Linux, and this is macOS: run it in a container, such as `docker run .* debian:13 bin\/demo`\n\z/, said, name)
    end
  end

  def test_other_linuxes_are_told_what_to_install
    said, status = setup_on("ID=fedora\nVERSION_ID=43\nPRETTY_NAME=\"Fedora Linux 43\"\n")
    assert_equal 1, status
    assert_match(/\Abin\/setup: this installs Debian's packages, and Fedora Linux 43 has no apt-get: install Ruby 3\.1 or newer .* Rust 1\.\d+ .*\n\z/, said)
  end

  def test_a_debian_with_an_older_ruby_is_too_old
    said, status = setup_on("PRETTY_NAME=\"Debian GNU/Linux 11 (bullseye)\"\nID=debian\nVERSION_ID=\"11\"\n")
    assert_equal 1, status
    assert_match(%r{\Abin/setup: Debian GNU/Linux 11 \(bullseye\) is too old, and Paceline needs Ruby 3\.1: use Debian 12}, said)
  end

  def test_the_root_of_unstable_that_can_t_be_made_is_one_line_and_no_failure
    Dir.mktmpdir do |dir|
      # A mirror that refuses at once.
      environment = { "PACELINE_MODERN" => "#{dir}/root", "PACELINE_MODERN_MIRROR" => "http://127.0.0.1:1/debian" }
      skip "a chroot needs root, and debootstrap" unless Process.uid.zero? && system("command -v debootstrap > /dev/null")
      said, out, status = capture(environment, "#{HERE}/bin/modern", "setup")
      assert_equal 0, status, said
      assert_match(/\ANOT RUN: .*: all of it: debootstrap failed; why is in #{dir}\/root\.log\n\z/, out)
      assert_equal ["", 0], capture(environment, "#{HERE}/bin/modern", "rubies").drop(1)
    end
  end

  private

  def script(name, body)
    path = File.join(@checkout, name)
    File.write(path, "#!/bin/sh\n#{body}\n")
    File.chmod(0o755, path)
  end

  def build(profile, version)
    FileUtils.mkdir_p("#{@checkout}/target/#{profile}")
    script("target/#{profile}/paceline", "[ \"$1\" != --version ] || { echo '#{version}'; exit; }\necho #{profile} \"$@\"")
  end

  def run_paceline(*arguments) = run_in_checkout("bin/paceline", *arguments).take(2)

  def setup_on(os_release)
    File.write("#{@checkout}/os-release", os_release)
    # The programs of a system without apt-get.
    %w[bash dirname sed head uname env].each { |name| File.symlink("/usr/bin/#{name}", "#{@checkout}/tools/#{name}") }
    said, _, status = capture({ "OS_RELEASE" => "#{@checkout}/os-release", "PATH" => "#{@checkout}/tools" }, "#{@checkout}/bin/setup")
    [said, status]
  end

  # [standard error, standard output, status]
  def run_in_checkout(*command)
    capture({ "PATH" => "#{@checkout}/tools:#{ENV.fetch("PATH")}", "PACELINE_BIN" => nil, "CARGO_TARGET_DIR" => nil }, "#{@checkout}/#{command.first}", *command.drop(1))
  end

  def capture(environment, *command)
    out, said, status = Open3.capture3(environment, *command)
    [said, out, status.exitstatus]
  end
end
