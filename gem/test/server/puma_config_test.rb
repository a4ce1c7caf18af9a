# frozen_string_literal: true

require "minitest/autorun"
require "fileutils"
require "open3"
require "rbconfig"
require "tmpdir"
require "paceline/server/puma_config"

# Puma's configuration file: its settings, hooks and mistakes. Each test reads by our own DSL; those of `by_puma` read by Puma's.
class PumaConfigTest < Minitest::Test
  FILES = File.expand_path("../puma_configs", __dir__)
  LIB = File.expand_path("../../lib", __dir__)
  DOCS = File.expand_path("../../../docs/from-puma.md", __dir__)
  CALLS = []
  Object.const_set(:CALLS, CALLS) unless Object.const_defined?(:CALLS)

  # A call of each word, in a form of Puma's documentation; more where it has more. Those whose word is named are below.
  FORMS = {
    "after_booted" => ["after_booted { }"], "after_refork" => ["after_refork { }", "after_refork(:key) { }"],
    "after_stopped" => ["after_stopped { }"], "after_worker_boot" => ["after_worker_boot { }"],
    "after_worker_fork" => ["after_worker_fork { |index| }"], "after_worker_shutdown" => ["after_worker_shutdown { |handle| }"],
    "app" => ["app do |env| [200, {}, []] end", "app ->(env) { [200, {}, []] }"], "before_fork" => ["before_fork { }"],
    "before_refork" => ["before_refork { 3.times { GC.start } }"], "before_thread_exit" => ["before_thread_exit { }"],
    "before_thread_start" => ["before_thread_start { }"], "before_worker_boot" => ["before_worker_boot { }", "before_worker_boot('key') { |i, data| }"],
    "before_worker_fork" => ["before_worker_fork { |index| }"], "before_worker_shutdown" => ["before_worker_shutdown { }"],
    "bind" => ["bind 'unix:///var/run/puma.sock?backlog=512'", "bind 'ssl://127.0.0.1:9292?key=key.key&cert=cert.pem'", "bind 'tcp://[::]:9292?low_latency=false'"],
    "bind_to_activated_sockets" => ["bind_to_activated_sockets", "bind_to_activated_sockets 'only'"], "clear_binds!" => ["clear_binds!"],
    "cluster" => ["cluster { threads 1 }"], "default_host" => ["default_host"], "directory" => ["directory '/u/apps/lolcat'"],
    "drain_on_shutdown" => ["drain_on_shutdown"], "early_hints" => ["early_hints", "early_hints false"], "enable_keep_alives" => ["enable_keep_alives"],
    "environment" => ["environment 'production'", "environment :production"], "first_data_timeout" => ["first_data_timeout 40", "first_data_timeout '40'"],
    "force_shutdown_after" => ["force_shutdown_after", "force_shutdown_after :immediately", "force_shutdown_after 3.5"],
    "fork_worker" => ["fork_worker", "fork_worker 50"], "get" => ["get(:workers)", "get('x', 1)"], "inject" => ["inject { threads 1 }"],
    "http_content_length_limit" => ["http_content_length_limit 2_000_000_000"], "load" => ["load 'more.rb'"], "log_requests" => ["log_requests", "log_requests false"],
    "lowlevel_error_handler" => ["lowlevel_error_handler { |e| }", "lowlevel_error_handler ->(e, env) { }", "lowlevel_error_handler do |e, env, status| end"],
    "max_fast_inline" => ["max_fast_inline 20"], "max_io_threads" => ["max_io_threads 5"], "max_keep_alive" => ["max_keep_alive 20", "max_keep_alive Float::INFINITY"],
    "mutate_stdout_and_stderr_to_sync_on_write" => ["mutate_stdout_and_stderr_to_sync_on_write false"], "on_booted" => ["on_booted { }"],
    "on_refork" => ["on_refork { }"], "on_stopped" => ["on_stopped { }"], "on_thread_exit" => ["on_thread_exit { }"],
    "on_thread_start" => ["on_thread_start { }"], "on_worker_boot" => ["on_worker_boot { |index| }", "on_worker_boot(:key) { |index, data| }"],
    "on_worker_fork" => ["on_worker_fork { }"], "on_worker_shutdown" => ["on_worker_shutdown { }"], "out_of_band" => ["out_of_band { GC.start }"],
    "persistent_timeout" => ["persistent_timeout 30", "persistent_timeout '30'", "persistent_timeout 0"], "pidfile" => ["pidfile '/u/apps/lolcat/tmp/pids/puma.pid'"],
    "plugin" => ["plugin :tmp_restart", "plugin 'tmp_restart'"], "port" => ["port 3000", "port '3000'", "port 3000, '::'", "port ENV['X'] || 3000, '0.0.0.0'"],
    "preload_app!" => ["preload_app!", "preload_app! false"], "queue_requests" => ["queue_requests false"], "quiet" => ["quiet", "quiet false"],
    "rack_url_scheme" => ["rack_url_scheme 'https'", "rack_url_scheme"], "rackup" => ["rackup '/u/apps/lolcat/config.ru'", "rackup DefaultRackup"],
    "raise_exception_on_sigterm" => ["raise_exception_on_sigterm false"], "set_default_host" => ["set_default_host '0.0.0.0'"],
    "set_remote_address" => ["set_remote_address", "set_remote_address :socket", "set_remote_address :localhost", "set_remote_address '10.0.0.1'",
                             "set_remote_address header: 'X-Real-IP'", "set_remote_address proxy_protocol: :v1", "set_remote_address(proxy_protocol: 'V1')"],
    "silence_fork_callback_warning" => ["silence_fork_callback_warning"], "silence_single_worker_warning" => ["silence_single_worker_warning"],
    "single" => ["single { threads 1 }"], "solid_queue_mode" => ["solid_queue_mode :async", "solid_queue_mode"],
    "ssl_bind" => ["ssl_bind '127.0.0.1', '9292', { cert: 'c.pem', key: 'k.pem', verify_mode: 'none' }", "ssl_bind '127.0.0.1', '9292', cert: 'c', key: 'k', reuse: { size: 2_000, timeout: 20 }",
                   "ssl_bind '0.0.0.0', 1, cert_pem: 'c', key_pem: 'k'"],
    "stdout_redirect" => ["stdout_redirect '/a/stdout', '/a/stderr'", "stdout_redirect '/a/stdout', '/a/stderr', true", "stdout_redirect"],
    "tag" => ["tag 'app name'", "tag ''"], "threads" => ["threads 5", "threads 0, 16", "threads '5', '5'"],
    "wait_for_less_busy_worker" => ["wait_for_less_busy_worker", "wait_for_less_busy_worker 0"], "worker_boot_timeout" => ["worker_boot_timeout 60"],
    "worker_check_interval" => ["worker_check_interval 10"], "worker_shutdown_timeout" => ["worker_shutdown_timeout 90"],
    "worker_timeout" => ["worker_timeout 60", "worker_timeout 3600"], "workers" => ["workers 2", "workers '2'", "workers :auto", "workers 'auto'", "workers nil", "workers 0"]
  }.freeze
  NAMED = {
    "activate_control_app" => ["activate_control_app 'unix:///var/run/pumactl.sock'", "activate_control_app 'auto', { no_token: true, data_only: true }", "activate_control_app"],
    "allow_underscore_headers" => ["allow_underscore_headers"], "before_restart" => ["before_restart { }"], "clean_thread_locals" => ["clean_thread_locals"],
    "custom_logger" => ["custom_logger Logger.new($stderr)"], "debug" => ["debug"], "enable_keep_alives" => ["enable_keep_alives false"],
    "extra_runtime_dependencies" => ["extra_runtime_dependencies ['a', 'b']"], "fiber_per_request" => ["fiber_per_request"], "fork_worker" => ["fork_worker 0"],
    "idle_timeout" => ["idle_timeout 60"], "io_selector_backend" => ["io_selector_backend :auto"], "log_formatter" => ["log_formatter { |text| text }"],
    "nakayoshi_fork" => ["nakayoshi_fork"], "on_restart" => ["on_restart { }"], "plugin" => ["plugin :of_nobody"], "prune_bundler" => ["prune_bundler"],
    "restart_command" => ["restart_command '/u/bin/restart'"], "shutdown_debug" => ["shutdown_debug", "shutdown_debug true, on_force: true"], "state_path" => ["state_path '/u/puma.state'"],
    "state_permission" => ["state_permission 0600"], "supported_http_methods" => ["supported_http_methods %w[HEAD GET]"], "tcp_mode!" => ["tcp_mode!"],
    "worker_culling_strategy" => ["worker_culling_strategy :oldest"]
  }.freeze

  def test_the_documentation_has_every_word
    documented = File.readlines(DOCS).grep(/^\| `/).flat_map { |line| line.split("|")[1].scan(/`([^`]+)`/).flatten }
    assert_equal (FORMS.keys | NAMED.keys).sort, documented.sort
    assert_empty documented.map(&:to_sym) - Paceline::Server::PumaConfig::Words.instance_methods
  end

  def test_every_word_works_or_is_named
    FORMS.each_value { |texts| texts.each { |text| assert_empty unnamed(evaluate(text).notices), text } }
    NAMED.each { |word, texts| texts.each { |text| assert_named word, evaluate(text).notices, text } }
  end

  # The same words, by the class of the Puma that is here.
  def test_every_word_by_puma
    script = <<~'RUBY'
      $LOAD_PATH.unshift(ARGV[0])
      require "bundler/setup"
      require "paceline/server/puma_config"
      $stderr.reopen(File::NULL)
      Marshal.load(File.binread("words")).each do |text|
        File.write("puma.rb", text)
        config = Paceline::Server::PumaConfig.load("puma.rb")
        puts [text, config.notices.join(" "), config.settings.reject { |name, _| name == "notice" }.inspect].join("\t")
      rescue Exception => e
        puts [text, "RAISED #{e.class} #{e.message}"].join("\t")
      end
      puts Paceline::Server::PumaConfig::Dsl.pumas_own?
    RUBY
    Dir.mktmpdir do |dir|
      texts = (FORMS.values + NAMED.values).flatten
      { "Gemfile" => "gem 'puma'\ngem 'logger'\n", "words" => Marshal.dump(texts), "script.rb" => script, "more.rb" => "" }
        .each { |name, text| File.binwrite(File.join(dir, name), text) }
      out, err, = Open3.capture3({ "BUNDLE_GEMFILE" => nil, "RUBYOPT" => nil, "RUBYLIB" => nil }, RbConfig.ruby, "script.rb", LIB, chdir: dir)
      *lines, own = out.lines(chomp: true)
      skip "no Puma here" if own.nil? && err.include?("Could not find gem")
      assert_equal "true", own, err
      assert_equal texts.size, lines.size
      lines.each { |line| compare(*line.split("\t")) }
    end
  end

  def compare(text, notices, settings = "")
    refute_match(/RAISED/, notices, text)
    word = NAMED.find { |_, texts| texts.include?(text) }&.first
    word ? assert_named(word, [notices], text) : assert_empty(unnamed([notices].reject(&:empty?)), text)
    ours = evaluate(text).settings.reject { |name, _| name == "notice" }.inspect
    assert_equal ours.gsub(%r{/\S*/tmp/paceline/}, ""), settings.gsub(%r{/\S*/tmp/paceline/}, "").sub(/\?(?=cert=)/, "?"), text unless text.start_with?("ssl_bind", "workers")
  end

  # Without what is said of words that work.
  def unnamed(notices)
    notices.grep_v(/\Alowlevel_error_handler: it answers what the application raises/)
  end

  def assert_named(word, notices, text)
    assert_equal 1, notices.size, text
    assert_match(/\A#{Regexp.escape(word.sub("on_restart", "before_restart").sub("plugin", "plugin :of_nobody"))} is ignored: .{10}/, notices[0], text)
  end

  def test_generated_files_of_rails
    pidfile = ["pidfile", "tmp/pids/server.pid"]
    {
      "rails_5" => [%w[port 3000], %w[environment development], pidfile, %w[threads 5]],
      "rails_6" => [%w[port 3000], %w[environment development], pidfile, %w[threads 5]],
      "rails_7_1" => [%w[port 3000], %w[environment development], pidfile, %w[threads 5]],
      "rails_8" => [%w[port 3000], %w[threads 3]]
    }.each do |name, settings|
      assert_equal settings, with_env({}) { load(name) }.settings, name
    end
  end

  def test_generated_files_read_the_environment
    variables = { "RAILS_MAX_THREADS" => "7", "PORT" => "8080", "PIDFILE" => "x.pid", "RAILS_ENV" => "staging" }
    %w[rails_5 rails_6 rails_7_1 rails_8].each do |name|
      settings = with_env(variables) { load(name).settings }.to_h
      assert_equal %w[7 8080 x.pid], settings.values_at("threads", "port", "pidfile"), name
    end
    settings = with_env("SOLID_QUEUE_IN_PUMA" => "1") { load("rails_8").settings }.to_h
    assert_equal "bundle exec rake solid_queue:start", settings["process"], "there is no bin/jobs here"
    assert_match(/plugin :solid_queue: the queue runs beside the workers/, settings["notice"])
  end

  def test_a_file_with_much_in_it
    config = nil
    capture_io { config = with_env({}) { load("cluster") } }
    named = config.notices.map { |notice| notice[/\A\S+/] }
    assert_equal %w[state_path activate_control_app prune_bundler lowlevel_error_handler: before_restart], named
    assert_equal({
      "directory" => File.dirname(FILES), "environment" => "production", "early_hints" => "true",
      "bind" => "tcp://127.0.0.1:9393", "workers" => "2", "threads" => "6", "preload" => "true", "rackup" => "shop.ru",
      "tag" => "shop", "shutdown_timeout" => "25000ms", "start_timeout" => "90000ms", "access_log" => "log/access.log", "app_log" => "log/app.log"
    }, config.settings.to_h.except("notice"))
    assert_includes config.settings, ["bind", "unix://tmp/sockets/puma.sock?umask=0117"]
    env = { "HTTP_X_REAL_IP" => "203.0.113.9, 10.0.0.1", "REMOTE_ADDR" => "127.0.0.1" }
    assert_equal "203.0.113.9", env.tap { |it| config.remote_address.apply(it) }["REMOTE_ADDR"]
    assert_equal [500, {}, ["broken"]], config.lowlevel_error_handler.call(nil)
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
      "threads 4" => [%w[threads 4]],
      "threads '0', '8'" => [%w[threads 8]],
      "threads '2', '8'" => [%w[threads 2:8]],
      "workers 'auto'" => [%w[workers auto]],
      "workers :auto" => [%w[workers auto]],
      "workers 2.9" => [%w[workers 2]],
      "workers ENV['NOT_SET_ANYWHERE']" => [%w[workers 0]],
      "port 80, '0.0.0.0'" => [%w[bind tcp://0.0.0.0:80]],
      "port 80, '::'" => [%w[bind tcp://[::]:80]],
      "port 80; port 81" => [%w[port 80], %w[port 81]],
      "set_default_host '0.0.0.0'; port 80" => [%w[bind tcp://0.0.0.0:80]],
      "bind 'tcp://:1'; port 2; clear_binds!" => [],
      "bind 'unix:///a.sock?mode=0666'" => [%w[bind unix:///a.sock?umask=0111]],
      "preload_app! false" => [%w[preload false]],
      "quiet" => [%w[log_requests false]],
      "force_shutdown_after 2.5" => [%w[shutdown_timeout 2500ms]],
      "force_shutdown_after :immediately" => [%w[shutdown_timeout 0ms]],
      "force_shutdown_after(-1)" => [%w[shutdown_timeout 86400000ms]],
      "persistent_timeout 75" => [%w[keepalive_timeout 75000ms]],
      "first_data_timeout 9" => [%w[head_timeout 9000ms]],
      "threads 1; max_io_threads 5" => [%w[threads 1], %w[stream_threads 5]],
      "fork_worker" => [%w[refork_after 1000]],
      "http_content_length_limit 9" => [%w[max_body 9]],
      "cluster { threads 2 }; single { threads 9 }" => [%w[threads 9]],
      "single { threads 9 }; cluster { threads 2 }; workers 2" => [%w[workers 2], %w[threads 2]],
      "@options[:pidfile] = false; @options[:workers] = 3" => [%w[workers 3]],
      "tag @config.options[:environment] + Puma::Const::CODE_NAME" => [%w[tag development]],
      "set_remote_address proxy_protocol: :v1" => [%w[proxy_protocol optional]],
      "app { |env| }" => [%w[kind rack]]
    }.each { |text, settings| assert_equal(settings, with_env({}) { evaluate(text) }.settings, text) }
  end

  def test_what_is_loaded_when_puma_reads_it_is_there
    constants = %w[Etc FileUtils Socket URI StringIO Set Tempfile Date DateTime Time IPAddr Pathname Logger JSON YAML SecureRandom Shellwords Timeout]
    code = "require 'paceline/server/puma_config'; c = Paceline::Server::PumaConfig.load('puma.rb'); print c.settings"
    Dir.mktmpdir do |dir|
      File.write(File.join(dir, "puma.rb"), "#{constants.join("; ")}; URI('http://a').host; tag Socket.gethostname.class.name; threads Etc.nprocessors.clamp(3, 3)\nbefore_fork { Date.today }")
      out, status = Open3.capture2e({ "RUBYOPT" => nil }, RbConfig.ruby, "-I#{LIB}", "-e", code, chdir: dir)
      assert_predicate status, :success?, out
      assert_equal '[["tag", "String"], ["threads", "3"]]', out
    end
  end

  # `rails server` has loaded it when Puma reads the file; the command `paceline` has not.
  def test_rails_and_constants_of_the_application_are_loaded_when_the_file_asks
    application = "module Rails; class Application; end; def self.env = 'staging'; end\nmodule Fizzy; def self.saas? = true; end\n"
    file = "tag Rails.env\nthreads 2 if Fizzy.saas?\nworkers 2 if defined?(Nothing)"
    Dir.mktmpdir do |dir|
      FileUtils.mkdir_p(File.join(dir, "config"))
      { "config/application.rb" => application, "config/puma.rb" => file }.each { |name, text| File.write(File.join(dir, name), text) }
      code = "require 'paceline/server/puma_config'; print Paceline::Server::PumaConfig.load('config/puma.rb').settings"
      out, = Open3.capture2e({ "RUBYOPT" => nil }, RbConfig.ruby, "-I#{LIB}", "-e", code, chdir: dir)
      assert_equal '[["tag", "staging"], ["threads", "2"]]', out
    end
  end

  def test_the_environment_that_the_file_sets
    with_env({}) { assert_equal [%w[environment staging]], evaluate("ENV['RACK_ENV'] ||= 'staging'").settings }
    with_env("RAILS_ENV" => "test") { assert_empty evaluate("ENV['RACK_ENV'] ||= 'staging'").settings }
  ensure
    ENV.delete("RACK_ENV")
  end

  def test_keys_of_certificates_are_nobodys_else
    Dir.mktmpdir do |dir|
      Dir.chdir(dir) do
        bind = evaluate("ssl_bind '0.0.0.0', 443, cert_pem: 'CERT', key_pem: 'KEY'").settings.to_h["bind"]
        path = bind[/key=([^&]+)/, 1]
        assert_equal ["KEY", 0o600], [File.read(path), File.stat(path).mode & 0o777]
      end
    end
  end

  def test_mistakes_name_the_line
    error = assert_raises(NoMethodError) { evaluate("\nworkerz 3") }
    assert_match(/puma\.rb:2/, error.backtrace.first)
    assert_raises(ArgumentError) { evaluate("threads 5, 3") }
    assert_raises(ArgumentError) { evaluate("before_fork") }
    assert_raises(NameError) { evaluate("Nonsense") }
  end

  private

  def load(name, environment = nil)
    Paceline::Server::PumaConfig.load(File.join(FILES, "#{name}.rb"), environment)
  end

  def evaluate(text)
    Dir.mktmpdir do |dir|
      path = File.join(dir, "puma.rb")
      File.write(File.join(dir, "more.rb"), "")
      File.write(path, text.sub("load 'more.rb'", "load #{File.join(dir, "more.rb").inspect}"))
      Paceline::Server::PumaConfig.load(path)
    end
  end

  def with_env(variables)
    names = %w[RAILS_ENV RACK_ENV APP_ENV RAILS_MAX_THREADS PORT PIDFILE WEB_CONCURRENCY SOLID_QUEUE_IN_PUMA]
    before = names.to_h { |name| [name, ENV[name]] }
    names.each { |name| ENV.delete(name) }
    ENV.update(variables)
    yield
  ensure
    ENV.update(before)
  end
end
