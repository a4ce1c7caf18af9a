# frozen_string_literal: true

require "helper"
require "paceline/server/handler"

# `rackup -s paceline`: the handler's process as the preloader, with a program in the front's place that speaks the
# protocol on the socket it was given.
class HandlerTest < Paceline::Test
  FRONT = <<~'RUBY'
    $LOAD_PATH.unshift(*ENV.fetch("LIBS").split(":"))
    require "support/fake_front"
    F = Paceline::Server::Frames
    at = ARGV.index("--adopt-control-fd")
    control = FakeFront::UnbufferedWire.new(UNIXSocket.for_fd(ARGV[at + 1].to_i))
    puts "arguments #{(ARGV[0...at] + ARGV[at + 2..]).join(" ")}"
    control.send(F::START, F.pairs("root" => Dir.pwd, "kind" => "rack", "site" => "adopted", "environment" => "test"))
    loaded = control.read
    puts "loaded #{loaded.type == F::LOADED} #{loaded.pairs["pid"] == Process.ppid.to_s}"
    control.send(F::FORK, F.fields(1, 1))
    forked = control.await(F::FORKED)
    worker = FakeFront::Worker.new(1, forked.fields[1].to_i, forked.fd)
    worker.await(F::READY)
    worker.channels[1].send(F::REQUEST, FakeFront.request)
    puts "body #{FakeFront.answer(worker.channels[1]).body}"
    waiting, waking = IO.pipe
    trap(:TERM) { waking.write("T") }
    puts "serving"
    $stdout.flush
    waiting.read(1)
    worker.control.send(F::DRAIN)
    puts "exited #{control.await(F::EXITED).fields[1]}"
  RUBY

  def test_rackup
    skip "no rackup" unless (command = rackup)
    files = { "config.ru" => "loaded = Process.pid\nat_exit { puts 'at_exit' }\nrun ->(env) { [200, {'content-type' => 'text/plain'}, [(loaded == Process.ppid).to_s]] }",
              "front.rb" => FRONT }
    in_tmpdir(files) do |dir|
      stub = File.join(dir, "front")
      write_stub(stub, File.join(dir, "front.rb"))
      lib = File.expand_path("../../lib", __dir__)
      env = { "PACELINE_BIN" => stub, "LIBS" => "#{lib}:#{File.expand_path("..", __dir__)}", "RACK_ENV" => nil, "RUBYLIB" => lib }
      IO.popen(env, [*command, "-s", "paceline", "-o", "::1", "-p", "4711", "-O", "Threads=3", "-E", "deployment", "-P", "rack.pid"],
               chdir: dir, err: %i[child out]) do |io|
        lines = []
        lines << io.gets until lines.last.nil? || lines.last.start_with?("serving") if lines.push("").any?
        assert_path_exists File.join(dir, "rack.pid")
        Process.kill(:TERM, io.pid)
        lines.concat(io.readlines).map!(&:chomp)
        assert_includes lines, "arguments -b tcp://[::1]:4711 -e deployment -t 3"
        assert_includes lines, "loaded true true"
        assert_includes lines, "body true"
        assert_includes lines, "exited 0"
        assert_equal 1, lines.count("at_exit"), "in the handler's process, not in the worker"
      end
      assert_predicate $?, :success?
      refute_path_exists File.join(dir, "rack.pid")
    end
  end

  OTHER = <<~'RUBY'
    handlers = defined?(Rackup::Handler) ? Rackup::Handler : Rack::Handler
    module Puma
      def self.run(_app, **options) = puts("Puma on #{options[:Port]}")
      def self.valid_options = {}
    end
    handlers.register(:puma, defined?(Rackup::Handler) ? Puma : "Puma")
  RUBY

  # The gem for platforms without a program: a copy of the Ruby files with none near it.
  def test_another_server_takes_over_where_there_is_no_program
    skip "no rackup" unless (command = rackup)
    in_tmpdir("config.ru" => "run ->(env) { [200, {}, []] }", "rackup/handler/puma.rb" => OTHER, "rack/handler/puma.rb" => OTHER) do |dir|
      FileUtils.cp_r(File.expand_path("../../lib", __dir__), File.join(dir, "lib"))
      env = { "PACELINE_BIN" => nil, "PATH" => dir, "RACK_ENV" => nil, "RACK_HANDLER" => nil, "RUBYLIB" => "#{dir}:#{dir}/lib" }
      said = IO.popen(env, [*command, "-s", "paceline", "-p", "4711", "-E", "deployment"], chdir: dir, err: %i[child out], &:read)
      assert_predicate $?, :success?, said
      assert_match(/^paceline: this (gem has no|is the gem without the) program.*; continuing with Puma$/, said)
      assert_match(/^Puma on 4711$/, said)
    end
  end

  # As Rails calls it: its own defaults are weaker than the addresses of config/puma.rb.
  def test_a_host_may_be_a_whole_address
    {
      "ssl://127.0.0.1:3001?key=a.key&cert=a.crt" => "ssl://127.0.0.1:3001?key=a.key&cert=a.crt",
      "ssl://localhost?key=a.key&cert=/etc/a.crt" => "ssl://localhost:3000?key=a.key&cert=/etc/a.crt",
      "ssl://[::1]?key=a" => "ssl://[::1]:3000?key=a",
      "tcp://0.0.0.0" => "tcp://0.0.0.0:3000",
      "unix:///run/shop.sock" => "unix:///run/shop.sock",
      "/run/shop.sock" => "unix:///run/shop.sock",
      "./tmp/shop.sock" => "unix://./tmp/shop.sock",
      "::1" => "tcp://[::1]:3000"
    }.each do |host, address|
      assert_equal address, Paceline::Server::Handler.address({ Host: host, Port: 3000 }), host
    end
  end

  def test_addresses_that_nobody_asked_for_are_defaults
    require "paceline/server/handler"
    handler = Paceline::Server::Handler
    given = { Host: "localhost", Port: 3000, user_supplied_options: [] }
    assert_equal %w[--adopt-control-fd 7], handler.arguments(given, 7)
    assert_equal({ "BINDING" => "127.0.0.1", "PORT" => "3000" }, handler.defaults(given))
    [[:Port], [:Host]].each do |asked|
      wanted = given.merge(user_supplied_options: asked)
      assert_equal %w[--adopt-control-fd 7 -b tcp://localhost:3000], handler.arguments(wanted, 7)
      assert_empty handler.defaults(wanted)
    end
    assert_equal %w[--adopt-control-fd 7 -b tcp://[::1]:9], handler.arguments({ Host: "::1", Port: 9 }, 7), "rackup does not say who asked"
  end

  private

  def rackup
    path = ENV["PATH"].split(":").map { |dir| File.join(dir, "rackup") }.find { |file| File.executable?(file) }
    path && [RbConfig.ruby, path]
  end

  def write_stub(path, script)
    File.write(path, "#!/bin/sh\nexec #{RbConfig.ruby} #{script} \"$@\"\n")
    File.chmod(0o755, path)
  end
end
