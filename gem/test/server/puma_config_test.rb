# frozen_string_literal: true

require "minitest/autorun"
require "open3"
require "rbconfig"
require "tmpdir"
require "paceline/server/puma_config"

# Puma's configuration file: its settings, hooks and mistakes.
class PumaConfigTest < Minitest::Test
  SCRIPT = File.expand_path("../../lib/paceline/server/puma_config.rb", __dir__)
  FILES = File.expand_path("../puma_configs", __dir__)
  CALLS = []
  Object.const_set(:CALLS, CALLS) unless Object.const_defined?(:CALLS)

  def load(name, environment = nil)
    Paceline::Server::PumaConfig.load(File.join(FILES, "#{name}.rb"), environment)
  end

  def evaluate(text)
    Dir.mktmpdir do |dir|
      path = File.join(dir, "puma.rb")
      File.write(path, text)
      Paceline::Server::PumaConfig.load(path)
    end
  end

  def with_env(variables)
    names = %w[RAILS_ENV RACK_ENV RAILS_MAX_THREADS PORT PIDFILE WEB_CONCURRENCY SOLID_QUEUE_IN_PUMA]
    before = names.to_h { |name| [name, ENV[name]] }
    names.each { |name| ENV.delete(name) }
    ENV.update(variables)
    yield
  ensure
    ENV.update(before)
  end

  def test_generated_files_of_rails
    pidfile = { pidfile: "tmp/pids/server.pid" }
    {
      "rails_5" => { threads: 5, port: 3000, environment: "development" }.merge(pidfile),
      "rails_6" => { threads: 5, port: 3000, environment: "development" }.merge(pidfile),
      "rails_7_1" => { threads: 5, port: 3000, environment: "development" }.merge(pidfile),
      "rails_8" => { threads: 3, port: 3000 }
    }.each do |name, settings|
      config = with_env({}) { load(name) }
      assert_equal(settings, config.settings, name)
      assert_empty config.ignored, name
    end
  end

  def test_ssl_bind_is_an_address_with_its_files
    config = evaluate('ssl_bind "0.0.0.0", 443, cert: "/etc/a b.pem", key: "k&.pem"')
    assert_equal ["ssl://0.0.0.0:443?cert=/etc/a%20b.pem&key=k%26.pem"], config.settings[:bind]
  end

  def test_generated_files_read_the_environment
    variables = { "RAILS_MAX_THREADS" => "7", "PORT" => "8080", "PIDFILE" => "x.pid", "RAILS_ENV" => "staging" }
    %w[rails_5 rails_6 rails_7_1 rails_8].each do |name|
      settings = with_env(variables) { load(name).settings }
      assert_equal [7, 8080, "x.pid"], settings.values_at(:threads, :port, :pidfile), name
    end
    assert_equal ["plugin :solid_queue"], with_env("SOLID_QUEUE_IN_PUMA" => "1") { load("rails_8").ignored }
  end

  def test_a_file_with_much_in_it
    config = nil
    capture_io { config = with_env({}) { load("cluster") } }
    assert_equal(
      {
        directory: File.dirname(FILES), environment: "production", early_hints: true,
        bind: ["unix://tmp/sockets/puma.sock?umask=0117", "tcp://127.0.0.1:9393"], workers: 2, threads: 6,
        preload: true, rackup: "shop.ru", tag: "shop", shutdown_timeout: "25000ms", start_timeout: "90000ms",
        access_log: "log/access.log", app_log: "log/app.log"
      }, config.settings
    )
    assert_equal %w[state_path activate_control_app prune_bundler lowlevel_error_handler set_remote_address
                    before_restart], config.ignored
  end

  def test_hooks_run_in_order_under_old_and_new_names
    config = nil
    capture_io { config = load("cluster") }
    CALLS.clear
    config.run_hooks(:before_fork)
    config.run_hooks(:before_worker_boot, 2)
    config.run_hooks(:on_worker_shutdown, 2)
    config.run_hooks(:before_thread_start)
    assert_equal [[:before_fork], [:old_boot, 2], [:new_boot, 2, 2], [:shutdown, 2, 2]], CALLS
  end

  def test_a_hook_that_raises_is_heard
    config = evaluate("before_fork { raise 'no database' }")
    assert_raises(RuntimeError) { config.run_hooks(:before_fork) }
  end

  def test_settings_one_by_one
    {
      "threads 4" => { threads: 4 },
      "threads '0', '8'" => { threads: 8 },
      "threads '2', '8'" => { threads: "2:8" },
      "workers 'auto'" => { workers: "auto" },
      "workers :auto" => { workers: "auto" },
      "workers ENV['NOT_SET_ANYWHERE']" => {},
      "port 80, '0.0.0.0'" => { bind: ["tcp://0.0.0.0:80"] },
      "port 80, '::'" => { bind: ["tcp://[::]:80"] },
      "port 80; port 81" => { port: 80, bind: ["tcp://127.0.0.1:81"] },
      "set_default_host '0.0.0.0'; port 80" => { bind: ["tcp://0.0.0.0:80"] },
      "bind 'tcp://:1'; clear_binds!" => {},
      "preload_app! false" => { preload: false },
      "quiet" => { log_requests: false },
      "log_requests" => { log_requests: true },
      "force_shutdown_after 2.5" => { shutdown_timeout: "2500ms" },
      "force_shutdown_after :immediately" => { shutdown_timeout: "0ms" },
      "force_shutdown_after(-1)" => { shutdown_timeout: "86400000ms" },
      "queue_requests false" => { buffer_requests: false },
      "fork_worker" => { refork_after: 1000 },
      "fork_worker 50" => { refork_after: 50 },
      "fork_worker 0" => {},
      "http_content_length_limit 9" => { max_body: 9 },
      "cluster { threads 2 }; single { threads 9 }" => { threads: 2 }
    }.each { |text, settings| assert_equal(settings, evaluate(text).settings, text) }
  end

  def test_every_word_of_puma_is_known
    words = Paceline::Server::PumaConfig::GRANTED + Paceline::Server::PumaConfig::WITHOUT_MEANING
    words.each { |name| evaluate("#{name} 1, 2\n#{name}(a: 1)\n#{name} { }") }
  end

  def test_mistakes_name_the_line
    error = assert_raises(NoMethodError) { evaluate("\nworkerz 3") }
    assert_match(/puma\.rb:2/, error.backtrace.first)
    assert_raises(ArgumentError) { evaluate("threads 5, 3") }
    assert_raises(ArgumentError) { evaluate("before_fork") }
  end

  def dump(text, environment = "")
    Dir.mktmpdir do |dir|
      File.write(File.join(dir, "puma.rb"), text)
      out, err, status = Open3.capture3(RbConfig.ruby, SCRIPT, "--dump", "puma.rb", environment, chdir: dir)
      [out, err.split("\0").last.to_s.strip, status.exitstatus]
    end
  end

  def test_dump
    out, = dump("puts 'noise'\ntag \"a\\tb\\nc\"\nbind 'tcp://:1'\nbind 'tcp://:2'\nprune_bundler")
    assert_equal "tag\ta\\tb\\nc\nbind\ttcp://:1\nbind\ttcp://:2\nignored\tprune_bundler\n\0", out
    assert_equal ["threads\t3\n\0", "", 0], dump("threads 3 if get(:environment) == 'staging'", "staging")
  end

  def test_dump_tells_a_mistake_in_one_line
    {
      "\nworkerz 3" => "puma.rb:2: unknown setting workerz",
      "workerz" => "puma.rb:1: unknown setting workerz",
      "\n\nraise 'oh'" => "puma.rb:3: oh (RuntimeError)",
      "exit" => "puma.rb:1: the file ends the program (exit)",
      "require 'no_such_thing'" => "puma.rb:1: cannot load such file -- no_such_thing (LoadError)"
    }.each { |text, told| assert_equal ["", told, 1], dump(text), text }
    assert_match(/\Apuma\.rb:2: [^\n]+\z/, dump("\ndef x")[1])
  end
end
