# Programs beside the workers: [[process]] in paceline.toml.
require_relative "../support/scenario"
require_relative "../support/control"
require "json"

class ProcessTest < Minitest::Test
  include Scenario
  include Control

  APP = 'run ->(env) { [200, {}, ["served"]] }'
  # Says what it sees, then waits to be told to end.
  JOBS = <<~'SH'
    #!/bin/sh
    trap 'echo "told to end"; exit 0' TERM
    echo "pid=$$ in $(pwd) rails=$RAILS_ENV own=$OWN which=$PACELINE_PROCESS with $*"
    while :; do sleep 0.05; done
  SH

  def test_it_is_started_beside_the_workers_with_their_environment
    dir = jobs_app(<<~TOML)
      environment = "production"
      env.OWN = "site"
      [[process]]
      command = "bin/jobs --queue 'a b'"
      env.OWN = "jobs"
    TOML
    server = serve(dir)
    who = "#{File.basename(dir)}.jobs"
    line = server.wait_for(/^\[#{who}\] pid=(\d+) in (\S+) rails=production own=jobs which=#{who} with --queue a b$/)

    assert_equal dir, line[2]
    assert_match(/^\* #{who} is started: bin\/jobs --queue a b \(pid #{line[1]}\)$/, server.output)
    assert_operator server.output.index(" is ready: "), :<, server.output.index("#{who} is started")
    process = only_process(server)
    assert_equal ["jobs", who, "running", Integer(line[1]), 1, nil], process.values_at("name", "who", "state", "pid", "starts", "last_exit")
    assert_equal 0, server.stop.exitstatus
    assert_match(/^\[#{who}\] told to end$/, server.output)
    assert_match(/^\* #{who} \(pid #{line[1]}\) has ended$/, server.output)
    refute alive?(line[1])
  end

  def test_a_new_generation_gets_a_new_one_from_its_own_release
    dir = jobs_app("[[process]]\ncommand = \"bin/jobs\"\n[[process]]\ncommand = \"bin/jobs\"\nname = \"stays\"\nrestart_with_app = false", folder: "releases/1")
    write(dir, "releases/2/config.ru" => APP, "releases/2/bin/jobs" => JOBS)
    File.chmod(0o755, File.join(dir, "releases/2/bin/jobs"))
    File.symlink("releases/1", File.join(dir, "current"))
    server = serve(dir, "--dir", "current", "-C", File.join(dir, "releases/1/paceline.toml"))
    first = server.wait_for(/\[\S+\.jobs\] pid=(\d+) in (\S+)/)
    stays = server.wait_for(/\[\S+\.stays\] pid=(\d+) in (\S+)/)
    assert_equal File.join(dir, "releases/1"), first[2]

    # A release that does not boot changes nothing.
    write(dir, "releases/1/config.ru" => "raise 'broken'")
    server.signal(:USR1)
    server.wait_for(/the old one goes on serving/)
    assert alive?(first[1])

    File.symlink("releases/2", File.join(dir, "new"))
    File.rename(File.join(dir, "new"), File.join(dir, "current"))
    server.signal(:USR1)
    second = server.wait_for(/\[\S+\.jobs\] pid=(\d+) in (\S+releases\/2)/)

    refute_equal first[1], second[1]
    refute alive?(first[1])
    assert alive?(stays[1])
    assert_operator server.output.index("told to end"), :<, server.output.index("releases/2 rails")
  end

  def test_one_that_dies_is_started_again
    dir = jobs_app("[[process]]\ncommand = \"bin/jobs\"\n[[process]]\ncommand = [\"sh\", \"-c\", \"exit 3\"]\nname = \"once\"\nrestart = \"never\"")
    server = serve(dir)
    first = server.wait_for(/\.jobs\] pid=(\d+)/)[1]
    Process.kill(:KILL, Integer(first))

    server.wait_for(/\* \S+\.jobs \(pid #{first}\) was killed by signal 9 \(KILL\); starting it again in 1s$/)
    second = server.wait_for(/\.jobs\] pid=(?!#{first}\b)(\d+)/)[1]
    assert alive?(second)
    server.wait_for(/\* \S+\.once \(pid \d+\) exited with status 3; it is not started again before the application is$/)
    jobs, once = processes(server)
    assert_equal ["running", 2, "was killed by signal 9 (KILL)"], jobs.values_at("state", "starts", "last_exit")
    assert_equal ["ended", 1, "exited with status 3", nil], once.values_at("state", "starts", "last_exit", "pid")
    told = control(server, "/incidents")["incidents"].select { |incident| incident["kind"] == "process-died" }.map { |incident| incident["what"] }
    assert_equal ["jobs was killed by signal 9 (KILL)", "once exited with status 3"], told.map { |what| what[/(?:jobs|once) .*/] }.sort
  end

  def test_one_that_can_not_be_started_is_told_and_tried_again
    server = serve(jobs_app("[[process]]\ncommand = \"bin/missing\"\n[[process]]\ncommand = \"bin/jobs\"\ndir = \"nowhere\""))

    server.wait_for(/\.missing\] can't run \S+\/bin\/missing: No such file or directory/)
    server.wait_for(/\.missing \(pid \d+\) exited with status 126; starting it again in 1s/)
    server.wait_for(/\.jobs could not be started: \S+\/nowhere is not a directory; starting it again in 1s/)
    assert_equal "served", server.get("/").body
  end

  def test_several_of_one
    server = serve(jobs_app("[[process]]\ncommand = \"bin/jobs\"\ncount = 2"))

    server.wait_for(/\.jobs\.1\] pid=/)
    server.wait_for(/\.jobs\.2\] pid=.* which=\S+\.jobs\.2 /)
  end

  def test_one_that_does_not_want_to_end_is_killed_with_what_it_has_forked
    stubborn = %q(trap "" TERM; sleep 1000 & echo "pid=$$ child=$!"; while :; do sleep 0.05; done)
    server = serve(jobs_app("[[process]]\ncommand = #{["sh", "-c", stubborn].inspect}\nstop_timeout = \"200ms\"".gsub('\$', "$")))
    pids = server.wait_for(/pid=(\d+) child=(\d+)/).captures

    assert_equal 0, server.stop.exitstatus
    assert_match(/\.sh \(pid #{pids[0]}\) did not end within 200ms and was killed/, server.output)
    eventually("its child to be gone") { pids.none? { |pid| alive?(pid) } }
  end

  def test_nothing_of_it_outlives_the_server
    forking = %q(sleep 1000 & echo "pid=$$ child=$!"; wait)
    server = serve(jobs_app("[[process]]\ncommand = #{["sh", "-c", forking].inspect}".gsub('\$', "$")))
    pids = server.wait_for(/pid=(\d+) child=(\d+)/).captures
    assert(pids.all? { |pid| alive?(pid) })
    everything = server.descendants

    server.kill

    eventually("all to be gone") { (pids + everything).none? { |pid| alive?(pid) } }
  end

  def test_a_program_that_takes_over_runs_its_own
    slow = %q(trap "sleep 6; echo finished; exit" TERM; echo "pid=$$"; while :; do sleep 0.05; done)
    server = serve(jobs_app("[[process]]\ncommand = #{["sh", "-c", slow].inspect}".gsub('\$', "$")))
    first = server.wait_for(/pid=(\d+)/)[1]

    server.signal(:USR2)

    second = server.wait_for(/pid=(?!#{first}\b)(\d+)/)[1]
    # It is given its time, though that is more than workers without requests get.
    server.wait_for(/^\[\S+\.sh\] finished$/)
    server.wait_for(/Replaced: all requests are finished/)
    assert_match(/\* \S+\.sh \(pid #{first}\) has ended$/, server.output)
    assert alive?(second)
    refute alive?(first)
    server.kill
    eventually("all to be gone") { !alive?(second) }
  end

  def test_it_runs_as_the_applications_account
    skip "only root can run it as somebody else" unless Process.uid.zero?
    dir = jobs_app("[[process]]\ncommand = [\"sh\", \"-c\", \"id -un; echo $HOME > /dev/stdout; sleep 1000\"]")
    FileUtils.chown_R("nobody", nil, dir)
    server = serve(dir, env: { "PACELINE_USER" => nil })

    server.wait_for(/\.sh\] nobody$/)
    server.wait_for(/\.sh\] #{Etc.getpwnam("nobody").dir}$/)
    pid = only_process(server)["pid"]
    server.kill
    eventually("it to be gone") { !alive?(pid) }
  end

  def test_mistakes_are_told_with_their_place
    dir = jobs_app("[[process]]\nname = \"jobs\"")
    output = IO.popen([BIN, "check"], chdir: dir, err: %i[child out], &:read)

    assert_match(/paceline\.toml:1:\d+: "process" has no command: add command = "bin\/jobs"/, output)
  end

  private

  def jobs_app(toml, folder: ".")
    dir = app("#{folder}/config.ru" => APP, "#{folder}/bin/jobs" => JOBS, "#{folder}/paceline.toml" => toml)
    File.chmod(0o755, File.join(dir, folder, "bin/jobs"))
    dir
  end

  def processes(server)
    answer = UNIXSocket.open(File.join(server.dir, "tmp/paceline.sock")) do |socket|
      socket.write("GET /generations HTTP/1.1\r\nHost: paceline\r\nConnection: close\r\n\r\n")
      socket.read
    end
    JSON.parse(answer.split("\r\n\r\n", 2).last)["sites"].values.first["processes"]
  end

  def only_process(server)
    found = processes(server)
    assert_equal 1, found.size
    found.first
  end

  # A zombie is gone.
  def alive?(pid)
    !File.read("/proc/#{pid}/stat").rpartition(") ").last.start_with?("Z")
  rescue Errno::ENOENT, Errno::ESRCH
    false
  end
end
