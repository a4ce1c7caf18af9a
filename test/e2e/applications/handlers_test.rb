# `rackup -s paceline`, `rails server -u paceline` and `ruby app.rb -s paceline`: the process that holds the app becomes
# the preloader of the real structure.
require_relative "../support/certificates"
require_relative "../support/scenario"

class HandlersTest < Minitest::Test
  include Scenario

  RACKUP = ENV["PATH"].split(":").map { |dir| File.join(dir, "rackup") }.find { |path| File.executable?(path) }
  LIB = File.join(CHECKOUT, "gem/lib")
  HELLO = "run ->(env) { File.read('barrier') if env['PATH_INFO'] == '/held'; [200, {}, ['hello from ', $PROGRAM_NAME]] }\n".freeze

  # A program in a process group of its own, as a shell starts it.
  class Program < Scenario::Server
    def initialize(dir, command, env = {})
      @dir = dir
      @log = Tempfile.create("paceline-output")
      clean = %w[RACK_ENV RAILS_ENV APP_ENV WEB_CONCURRENCY RAILS_MAX_THREADS PORT BUNDLE_GEMFILE RUBYOPT].to_h { |name| [name, nil] }
      @pid = Process.spawn(clean.merge("RUBYLIB" => LIB, "PACELINE_BIN" => Scenario::BIN).merge(env), *command, chdir: dir, pgroup: true, out: @log, err: @log, in: File::NULL)
    end

    # What the terminal does on Ctrl-C.
    def interrupt = Process.kill(:INT, -pid)
  end

  def start(dir, *command, env: {})
    program = Program.new(dir, command, env)
    (@servers ||= []) << program
    program.wait_for(/Listening on http:\/\/\S+:(\d+)/) { |match| program.port = Integer(match[1]) }
    program.wait_for(/ is ready: /)
    program
  end

  def rackup(dir, *arguments) = start(dir, "ruby", RACKUP, "-s", "paceline", "-p", "0", *arguments)

  def gone(pids)
    refute_empty pids
    eventually("#{pids} to go") { pids.none? { |pid| File.exist?("/proc/#{pid}") } }
  end

  def test_a_worker_becomes_the_mold_of_others
    app = "count = 0\nrun ->(env) { count += 1; [200, {}, [\"\#{Process.ppid} \#{count}\"]] }"
    program = rackup(app("config.ru" => app, "paceline.toml" => "refork_after = 5\nworkers = 2\n"))
    reforked = /is reforked from worker \d \(pid (\d+)\)/
    program.get("/") until program.output.match?(reforked)
    mold = program.output[reforked, 1]
    eventually("a worker of the mold") { program.get("/").body.start_with?("#{mold} ") }
    assert_operator program.get("/").body.split.last.to_i, :>, 5
    eventually("its workers alone") { program.workers.size == 2 }
    left = program.descendants - [program.pid]
    Process.kill(:KILL, mold.to_i)
    program.wait_for(/the preloader \(pid #{mold}\) .*; starting it again/)
    program.wait_for(/ is ready: .*is ready: /m)
    assert_equal "200", program.get("/").code

    program.interrupt

    assert_equal 0, program.wait.exitstatus
    gone(left)
  end

  def test_rackup
    dir = app("config.ru" => HELLO)
    program = rackup(dir)
    assert_match(/\Ahello from /, program.get("/").body)
    ruby = program.descendants
    assert(program.workers.any?, "no worker")

    program.interrupt

    assert_equal 0, program.wait.exitstatus
    gone(ruby)
  end

  def test_the_host_may_be_an_address_with_a_certificate
    dir = app("config.ru" => 'run ->(env) { [200, {}, [env["rack.url_scheme"]]] }')
    authority = Authority.new
    authority.write(dir, "shop", "shop.test")
    program = Program.new(dir, ["ruby", RACKUP, "-s", "paceline", "-o", "ssl://127.0.0.1?cert=shop.pem&key=shop.key", "-p", "0"])
    (@servers ||= []) << program
    port = Integer(program.wait_for(%r{Listening on https://\S+:(\d+)})[1])
    program.wait_for(/ is ready: /)
    authority.connect(port, "shop.test") do |socket|
      socket.write("GET / HTTP/1.1\r\nHost: shop.test\r\nConnection: close\r\n\r\n")
      assert socket.read.end_with?("https")
    end
  end

  def test_ctrl_c_finishes_what_is_in_hand
    dir = app("config.ru" => "run ->(env) { File.write('entered', 'x'); File.read('barrier'); [200, {}, ['done']] }\n")
    gate, entered = barrier(dir), barrier(dir, "entered")
    program = rackup(dir)
    asking = Thread.new { program.get("/").body }
    entered.wait
    program.interrupt
    program.wait_for(/Stopping: /)
    program.interrupt
    gate.open
    assert_equal "done", asking.value
    assert_equal 0, program.wait.exitstatus
  end

  def test_nothing_outlives_the_process_that_holds_the_app
    program = rackup(app("config.ru" => HELLO))
    program.get("/")
    all = program.descendants
    program.kill
    gone(all)
  end

  def test_the_process_that_holds_the_app_ends_with_the_front
    program = rackup(app("config.ru" => HELLO))
    front = program.descendants.find { |pid| (File.readlink("/proc/#{pid}/exe") rescue nil) == File.realpath(BIN) }
    all = program.descendants
    Process.kill(:KILL, front)
    refute_equal 0, program.wait.exitstatus
    gone(all)
  end

  def test_a_restart_replaces_the_process_that_held_the_app
    dir = app("config.ru" => "version = File.read('version')\nrun ->(env) { [200, {}, [version]] }\n", "version" => "old")
    program = rackup(dir)
    assert_equal "old", program.get("/").body
    write(dir, "version" => "new", "tmp/restart.txt" => "")
    program.wait_for(/is ready: .*is ready: /m)
    eventually("the new version") { program.get("/").body == "new" }
    all = program.descendants
    program.interrupt
    assert_equal 0, program.wait.exitstatus
    gone(all)
  end

  def test_a_port_that_is_taken
    holder = TCPServer.new("127.0.0.1", 0)
    dir = app("config.ru" => HELLO)
    program = Program.new(dir, ["ruby", RACKUP, "-s", "paceline", "-o", "127.0.0.1", "-p", holder.local_address.ip_port.to_s])
    (@servers ||= []) << program
    assert_equal 1, program.wait.exitstatus
    assert_match(/could not listen on 127\.0\.0\.1:#{holder.local_address.ip_port}: Address already in use/, program.output)
  end

  def test_the_handler_is_found_by_name
    # Rack 2 keeps the handlers itself; with Rack 3 they are rackup's.
    script = <<~RUBY
      require "rack"
      require "rackup" if Rack.release.to_i >= 3
      handler = (defined?(Rackup) ? Rackup : Rack)::Handler.get("paceline")
      print handler.name.delete_prefix("Rackup::").delete_prefix("Rack::"), " ", handler.valid_options.keys.first
    RUBY
    found = IO.popen([{ "RUBYLIB" => LIB }, "ruby", "-e", script], &:read)
    assert_equal "Handler::Paceline Host=HOST", found
  end

  def test_a_classic_sinatra_file
    dir = app("app.rb" => "require 'sinatra'\nget('/') { \"sinatra \#{Process.pid}\" }\n")
    program = start(dir, "ruby", "app.rb", "-s", "paceline", "-p", "0")
    assert_match(/\Asinatra \d+\z/, program.get("/").body)
    refute_equal "sinatra #{program.pid}", program.get("/").body
    all = program.descendants
    program.interrupt
    assert_equal 0, program.wait.exitstatus
    gone(all)
  end

  def test_rails_server
    dir = app
    FileUtils.cp_r(Dir[File.join(CHECKOUT, "examples/brewery/{app,bin,config,config.ru,db,lib,public,Gemfile,Rakefile}")], dir)
    FileUtils.rm_rf(Dir[File.join(dir, "db/*.sqlite3*"), File.join(dir, "Gemfile.lock")])
    FileUtils.mkdir_p(%w[log tmp/pids].map { |name| File.join(dir, name) })
    write(dir, "config/routes.rb" => "Rails.application.routes.draw { get '/' => ->(env) { [200, {}, ['rails ', Rails.env]] } }\n")
    FileUtils.rm_f(File.join(dir, "config/puma.rb"))
    program = start(dir, "ruby", "bin/rails", "server", "-u", "paceline", "-p", "0", "-e", "test", "-P", "tmp/pids/server.pid")

    assert_equal "rails test", program.get("/").body
    assert_equal program.pid.to_s, File.read(File.join(dir, "tmp/pids/server.pid"))
    all = program.descendants
    program.interrupt

    assert_equal 0, program.wait.exitstatus
    gone(all)
    refute_path_exists File.join(dir, "tmp/pids/server.pid")
  end
end
