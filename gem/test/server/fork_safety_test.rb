# frozen_string_literal: true

require "helper"
require "paceline/server/fork_safety"

# What keeps a process from being forked, each found and named; and what does not.
class ForkSafetyTest < Paceline::Test
  # In a process of its own: this one is full of other tests' sockets.
  def obstacles(setup)
    script = <<~RUBY
      require "paceline/server/fork_safety"
      require "socket"
      $own = { shared: Paceline::Server::ForkSafety.open_ends } # the tests' own
      def look(**own) = $own.update(own)
      held = begin
      #{setup}
      end
      print Paceline::Server::ForkSafety.new(**$own).obstacles.join("\\n")
      $stdout.flush
      Process.kill(:KILL, $child) if $child
      exit!
    RUBY
    in_tmpdir("app.rb" => script) do |dir|
      IO.popen([RbConfig.ruby, "-I", File.expand_path("../../lib", __dir__), File.join(dir, "app.rb")], chdir: dir, &:read).gsub("#{dir}/", "").lines(chomp: true)
    end
  end

  def test_nothing
    assert_empty obstacles("nil")
  end

  def test_threads_are_named_by_name_and_place
    assert_equal ['thread "heart beat" started at app.rb:6 runs', "thread started at app.rb:7 runs"],
                 obstacles("Thread.new { sleep }.name = 'heart beat'\nThread.new { sleep }")
  end

  def test_threads_that_start_again_or_are_the_server_s_do_no_harm
    assert_empty obstacles("Thread.new { sleep }.thread_variable_set(:fork_safe, true)")
    assert_empty obstacles("look(threads: [Thread.new { sleep }])")
    assert_empty obstacles("Thread.new {}.join")
    assert_empty obstacles("require 'timeout'; Timeout.timeout(60) {}")
  end

  def test_connections_are_named_by_their_other_end
    told = obstacles("$port = (server = TCPServer.new('127.0.0.1', 0)).addr[1]\n[server, TCPSocket.new('127.0.0.1', $port), server.accept]")
    assert_equal 3, told.size
    assert_match(/\Aa socket that listens on 127\.0\.0\.1:\d+ is open \(descriptor \d+, TCPServer\)\z/, told[0])
    assert_match(/\Aa connection to 127\.0\.0\.1:\d+ is open \(descriptor \d+, TCPSocket\)\z/, told[1])
    assert_match(/\Aa connection to a socket without a name is open .*UNIXSocket/, obstacles("UNIXSocket.pair").first)
    assert_match(/\Aa connection to named is open/, obstacles("path = File.expand_path('named')\nserver = UNIXServer.new(path)\n$kept = UNIXSocket.new(path)\nlook(descriptors: [server.fileno])\nserver")[0])
  end

  def test_pipes_and_others
    assert_match(/\Aa pipe is open \(descriptor \d+, IO\)\z/, obstacles("IO.pipe").first)
    assert_match(/\Ainotify is open/, obstacles("RUBY_PLATFORM.start_with?('x86_64') ? syscall(253) : syscall(26, 0) # inotify_init, inotify_init1").first)
  end

  def test_open_files_and_datagrams_do_no_harm
    assert_empty obstacles("[File.open('a', 'w'), File.open('/dev/null'), File.open('/dev/urandom'), Dir.new('.')]")
    assert_empty obstacles("UDPSocket.new.tap { |socket| socket.connect('127.0.0.1', 8125) }")
  end

  def test_what_was_open_when_the_process_was_forked_does_no_harm
    assert_empty obstacles("pair = UNIXSocket.pair\nlook(shared: Paceline::Server::ForkSafety.open_ends)\npair")
    assert_equal 2, obstacles("look(shared: Paceline::Server::ForkSafety.open_ends)\nUNIXSocket.pair").size
  end

  def test_what_nobody_holds_is_closed_first
    assert_empty obstacles("def opened = IO.pipe.size\n50.times { opened }\nnil").first(1).grep_v(/pipe/)
  end

  def test_children_that_run
    assert_match(/\Aprocess \d+ \(sleep\), a child, runs\z/, obstacles("Process.detach($child = spawn('sleep', '60'))").first)
    assert_empty obstacles("spawn('true').then { |pid| sleep 0.01 until File.read(\"/proc/\#{pid}/stat\").include?(') Z') }")
  end
end
