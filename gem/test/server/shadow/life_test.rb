# frozen_string_literal: true

require_relative "support/shadow_case"
require "paceline/server/shadow"

# From the fork to the end of a shadow, and what it may not do to anybody.
class ShadowLifeTest < ShadowCase
  APP = "at_exit { File.write(File.join(__dir__, 'at_exit'), '') if $written }\n$pid = Process.pid\nrun ->(env) { [200, {}, [Process.ppid == $pid ? 'a child' : 'loaded here']] }"

  # Until the process is gone, which nobody here is the parent of.
  def await_end(pid)
    Timeout.timeout(FakeFront::LIMIT) { Thread.pass while File.exist?("/proc/#{pid}") && File.read("/proc/#{pid}/stat")[/\) (\w)/, 1] != "Z" }
  rescue Errno::ENOENT, Errno::ESRCH
    nil
  end

  def test_is_a_fork_of_the_preloader_that_says_what_it_is
    with_shadow(APP, environment: "production") do |shadow, dir, front|
      assert_equal [RUBY_VERSION, ""], shadow.hello.values_at("ruby", "rails")
      assert_match(/\A[23]\./, shadow.hello["rack"])
      assert_equal ["production", dir], shadow.hello["facts"].values_at("environment", "root")
      assert_equal front.pid, Integer(File.read("/proc/#{shadow.pid}/stat")[/\) \w (\d+)/, 1])
      assert_equal "a child", shadow.get("/")["text"]
    end
  end

  def test_workers_serve_beside_shadows
    with_shadow(APP) do |shadow, dir, front|
      worker = front.fork_worker
      worker.await(F::READY)
      worker.channels[1].send(F::REQUEST, FakeFront.request)
      assert_equal "a child", FakeFront.answer(worker.channels[1]).body
      assert_equal "a child", shadow(front, dir).get("/")["text"]
      assert_equal "a child", shadow.get("/")["text"]
    end
  end

  def test_without_an_app_it_says_why_there_is_none
    with_front({ "config.ru" => APP }, preload: "0") do |front, dir|
      assert_equal F::LOADED, front.await_start.type
      assert_match(/preload = false/, shadow(front, dir).hello["error"])
    end
  end

  def test_a_doctor_who_is_gone_is_no_concern_of_the_preloader
    with_front({ "config.ru" => APP }) do |front, dir|
      front.await_start
      front.control.send(F::SHADOW, F.fields(File.join(dir, "nobody")))
      assert_equal "a child", shadow(front, dir).get("/")["text"]
    end
  end

  def test_ends_when_it_is_told_to
    with_shadow(APP) do |shadow|
      shadow.tell(do: "quit")
      assert_nil shadow.read
      await_end(shadow.pid)
    end
  end

  def test_ends_with_its_doctor_whatever_the_app_does
    with_shadow({ "config.ru" => "run ->(env) { File.open(File.join(__dir__, 'busy')) { nil } and sleep }" }) do |shadow, dir|
      File.mkfifo(File.join(dir, "busy"))
      shadow.tell(shadow.replay("/"))
      File.open(File.join(dir, "busy"), "w") { shadow.close }
      await_end(shadow.pid)
    end
  end

  def test_ends_with_the_preloader
    with_shadow(APP) do |shadow, _dir, front|
      Process.kill(:KILL, front.pid)
      assert_nil shadow.read
      await_end(shadow.pid)
    end
  end

  def test_runs_no_handlers_of_the_app
    with_shadow("run ->(env) { $written = true; [200, {}, []] }\n#{APP}") do |shadow, dir|
      shadow.get("/")
      shadow.tell(do: "quit")
      await_end(shadow.pid)
      refute_path_exists File.join(dir, "at_exit")
    end
  end

  def test_is_quiet
    app = "LOG = File.open(File.join(__dir__, 'app.txt'), 'a'); LOG.write('kept ')\n" \
          "run ->(env) { LOG.write('x'); LOG.flush; puts 'x'; warn 'x'; [200, {}, [[Process.getpriority(Process::PRIO_PROCESS, 0), Process.getsid == Process.pid, File.read('/proc/self/autogroup')[/nice (\\d+)/, 1]].join(' ')]] }"
    reading, writing = IO.pipe
    with_shadow(app, out: writing, err: writing) do |shadow, dir, front|
      writing.close
      assert_match(/\A19 false/, shadow.get("/")["text"])
      assert_equal({ "ok" => true }, shadow.ask(do: "background"))
      assert_equal "19 true 19", shadow.get("/")["text"], "in a session of its own, with the least share"
      assert_empty File.read(File.join(dir, "app.txt")), "a shadow has written what the preloader had not yet"
      front.stop
      assert_empty reading.read
    end
  end

  def test_what_the_app_forks_answers_nobody
    with_shadow("run ->(env) { pid = fork; pid ? (Process.wait(pid); [200, {}, [$?.exitstatus.to_s]]) : [200, {}, ['child']] }") do |shadow|
      2.times { assert_equal "0", shadow.get("/")["text"] }
    end
  end

  def test_a_command_that_it_does_not_know_is_answered
    with_shadow(APP) do |shadow|
      assert_match(/unknown command "dance"/, shadow.ask(do: "dance")["error"])
      assert_match(/no patch "?dance/, shadow.ask(do: "patch", name: "dance")["error"])
      assert_equal({ "ok" => true }, shadow.ask(do: "recordings", all: []))
      shadow.get("/")
      assert_match(/before the first replay/, shadow.ask(do: "patch", name: "dance")["error"])
      assert_equal [5, 500, "KeyError"], shadow.ask(do: "replay", id: 5).then { |result| [result["id"], result["status"], result["error"]["class"]] }
    end
  end

  def test_a_folder_of_its_own_goes_with_it
    app = "require 'pstore'\n#{APP}"
    in_tmpdir do |tmpdir|
      with_shadow(app, env: { "TMPDIR" => tmpdir }) do |shadow|
        assert_equal({ "ok" => true }, shadow.ask(do: "patch", name: "pstore_copy"))
        assert_match(/\Apaceline-shadow-/, Dir.children(tmpdir).fetch(0))
        Process.kill(:KILL, shadow.pid)
        Timeout.timeout(FakeFront::LIMIT) { Thread.pass until Dir.empty?(tmpdir) }
      end
      with_shadow(app, env: { "TMPDIR" => tmpdir }) do |shadow|
        assert_equal({ "ok" => true }, shadow.ask(do: "patch", name: "pstore_copy"))
        shadow.tell(do: "quit")
        assert_nil shadow.read
        assert_empty Dir.children(tmpdir)
      end
    end
  end

  # What a request has put there, too; and no file stays in the folder for temporary files.
  def test_it_goes_with_the_preloader
    app = "require 'tmpdir'\nrun ->(env) { File.write(File.join(Dir.tmpdir, 'export'), 'x'); [200, {}, [[Dir.tmpdir, ENV['TMPDIR']].uniq.join(' ')]] }"
    in_tmpdir do |tmpdir|
      with_shadow(app, env: { "TMPDIR" => tmpdir }) do |shadow, _, front|
        own = shadow.get("/")["text"]
        assert_equal [tmpdir, ["export"]], [File.dirname(own), Dir.children(own)]
        front.stop
        assert_empty Dir.children(tmpdir)
      end
    end
  end

  def test_a_folder_that_was_left_behind_goes_with_the_next_shadow
    in_tmpdir do |tmpdir|
      gone = Process.spawn("true")
      Process.wait(gone)
      { "a" => gone, "b" => Process.pid }.each { |name, pid| Dir.mkdir(File.join(tmpdir, "paceline-shadow-#{pid}-#{name}")) }
      with_shadow(APP, env: { "TMPDIR" => tmpdir }) do |_, _, front|
        assert_equal ["paceline-shadow-#{Process.pid}-b"], Dir.children(tmpdir).grep_v(/-#{front.pid}-/)
      end
    end
  end

  def test_any_process_with_an_app_can_fork_one
    code = <<~'RUBY'
      require "paceline/server/shadow"
      $stdout.sync = true
      path, root = ARGV
      puts Paceline::Server::Shadow.start(path, app: ->(_env) { [200, {}, [$first]] }, root: root) { $first = "ran before" }
      $stdin.read
    RUBY
    in_tmpdir do |dir|
      path = File.join(dir, "doctor")
      UNIXServer.open(path) do |server|
        Open3.popen2(RbConfig.ruby, "-I#{File.expand_path("../../../lib", __dir__)}", "-e", code, path, dir) do |_, output|
          shadow = Shadow.new(server.accept)
          assert_equal shadow.pid, Integer(output.gets)
          assert_equal "ran before", shadow.get("/")["text"]
        end
      end
    end
  end
end
