# frozen_string_literal: true

# Servers that are run from a checkout, by scripts in the place of their programs.
require "minitest/autorun"
require "tmpdir"
require_relative "../lib/processes"
require_relative "../lib/running_server"
require_relative "../lib/servers"

class CheckoutTest < Minitest::Test
  include Bench

  PROGRAMS = { "iodine" => "exe/iodine", "itsi" => "gems/server/exe/itsi", "falcon" => "bin/falcon" }.freeze
  # Loads a library of the checkout, serves in two processes that it forks, all of one title.
  SCRIPT = <<~'RUBY'
    require "stand_in"
    require "socket"
    port = ARGV.join(" ")[/(?:-p |:)(\d+)/, 1]
    listener = TCPServer.new("127.0.0.1", port)
    # Its workers end with it, as a real server's do: they are of its process group.
    trap("TERM") do
      trap("TERM", "IGNORE")
      Process.kill("TERM", 0)
      Process.waitall
      exit
    end
    2.times do
      fork do
        loop do
          socket = listener.accept
          nil until socket.gets == "\r\n"
          socket.write("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\n#{STAND_IN}\n")
          socket.close
        end
      end
    end
    sleep
  RUBY

  def setup
    @environment = ENV.to_h
    PROGRAMS.each_key { |name| ENV.delete("PACELINE_#{name.upcase}") }
  end

  def teardown
    ENV.replace(@environment)
  end

  def test_a_checkout_serves_with_its_workers_told_from_their_parent
    PROGRAMS.each_key do |name|
      checkout(name) do
        server = Servers.named([name]).first
        assert_nil server.missing
        running = RunningServer.new(server, RunningServerApp.new({}, Dir.tmpdir), Processes.new, File.join(Dir.tmpdir, "checkout-test"), "/")
        begin
          running.start
          assert_equal 2, running.workers.size
          assert_equal 3, running.processes.size
        ensure
          running.stop
        end
      end
    end
  end

  def test_only_a_server_whose_variable_is_set_takes_part_unasked
    names = -> { Servers::ALL.select(&:by_default?).map(&:name) }
    assert_empty names.call & [*PROGRAMS.keys, "before"]
    PROGRAMS.each_key { |name| checkout(name) { assert_equal [name], names.call & PROGRAMS.keys } }
  end

  def test_a_program_that_is_not_there_is_named
    assert_equal "PACELINE_IODINE/exe/iodine", Servers.named(["iodine"]).first.missing
    with("PACELINE_FALCON", "/nowhere") { assert_equal "PACELINE_FALCON/bin/falcon", Servers.named(["falcon"]).first.missing }
  end

  private

  RunningServerApp = Struct.new(:environment, :directory) do
    def name = :rack
  end

  def checkout(name)
    Dir.mktmpdir do |folder|
      path = File.join(folder, PROGRAMS.fetch(name))
      library = File.join(folder, name == "itsi" ? "gems/server/lib" : "lib")
      [File.dirname(path), library].each { |directory| FileUtils.mkdir_p(directory) }
      File.write(path, SCRIPT)
      File.write(File.join(library, "stand_in.rb"), "STAND_IN = 42\n")
      with("PACELINE_#{name.upcase}", folder) { yield }
    end
  end

  def with(variable, value)
    ENV[variable] = value
    yield
  ensure
    ENV.delete(variable)
  end
end
