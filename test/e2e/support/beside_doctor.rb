# What scenarios of `paceline doctor` share: its environment, a git tree, and the shadows of a server. Of a Scenario with Asking.
require "open3"

module BesideDoctor
  # With a state folder of the scenario's own.
  def environment(dir) = Asking::OWN.merge(Scenario::AS_ROOT).merge("XDG_STATE_HOME" => File.join(dir, "state"))

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
