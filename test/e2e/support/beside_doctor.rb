# What scenarios of `paceline doctor` share: the command, its environment, a git tree, and the shadows of a server. Of a Scenario with Asking.
require "json"
require "open3"

module BesideDoctor
  # With a state folder of the scenario's own.
  def environment(dir) = Asking::OWN.merge(Scenario::AS_ROOT).merge("XDG_STATE_HOME" => File.join(dir, "state"))

  # Runs `paceline doctor ARGUMENTS` in the folder: standard output; standard error is in @said. `env`: beside the terminal's own.
  def doctor(dir, *arguments, status: 0, env: {})
    env = { "PACELINE_GEM_DIR" => File.join(Scenario::CHECKOUT, "gem") }.merge(env)
    out, @said, ended = Open3.capture3(environment(dir).merge(env), Scenario::BIN, "doctor", *arguments.map(&:to_s), chdir: dir)
    assert_includes Array(status), ended.exitstatus, out + @said
    out
  end

  def report(dir, *arguments, **options) = JSON.parse(doctor(dir, *arguments, "--json", **options))

  def git(dir, *arguments)
    out, status = Open3.capture2e("git", "-c", "user.name=test", "-c", "user.email=test@example.test", *arguments, chdir: dir)
    assert status.success?, out
    out
  end

  # All files of the folder in one commit.
  def commit(dir)
    git(dir, "init", "--quiet")
    git(dir, "add", ".")
    git(dir, "commit", "--quiet", "--message", "An application")
  end

  # The processes that the server's preloaders have, but for its workers.
  def shadows(server)
    children = ->(pid) { File.read("/proc/#{pid}/task/#{pid}/children").split.map { |child| Integer(child) } }
    children[server.pid].flat_map { |preloader| children[preloader] } - server.workers
  end
end
