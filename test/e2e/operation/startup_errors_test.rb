# An application that does not start: terminal and browser tell the same, and mending it is enough.
require "open3"
require_relative "../support/asking"
require_relative "../support/scenario"
require_relative "../support/visitor"

class StartupErrorsTest < Minitest::Test
  include Scenario
  include Asking

  HELLO = "run ->(env) { [200, {}, ['hello']] }\n".freeze
  BREWERY = File.join(CHECKOUT, "examples/brewery")

  # What a reader of the page sees.
  def words(page)
    Visitor.unescape(page.dup.force_encoding("UTF-8").gsub(/<style.*?<\/style>/m, "").gsub(/<[^>]+>/, " ")).gsub("&#x27;", "'").gsub("&nbsp;", " ").gsub(/\s+/, " ")
  end

  # Terminal and browser set the same words differently.
  def bare(text) = text.downcase.gsub(/^\s*[ ➜]\s*\d+ │/, "").gsub(/[^[:alnum:]\/.]+/, " ")

  def page(server) = server.get("/", "Accept" => "text/html")

  # The app in `dir` fails: `step`, and `told` are said on the terminal and in the browser.
  def fails(dir, step, *told, arguments: [], env: {})
    server = serve(dir, *arguments, env: env, ready: false)
    server.wait_for(/ did not start$/)
    answer = page(server)
    assert_equal "503", answer.code
    assert_equal "text/html; charset=utf-8", answer["content-type"]
    assert_match(/✗ #{step} .* failed here$/, server.output)
    assert_match(/ #{step} +failed here/, words(answer.body))
    text, html = bare(server.output), bare(words(answer.body))
    told.each do |said|
      assert_operator text, :include?, bare(said)
      assert_operator html, :include?, bare(said)
    end
    server
  end

  # The app has been mended: asking again is all it takes.
  def mended(server, body = "hello")
    eventually("the mended app") { (answer = page(server)).code == "200" && answer.body.include?(body) }
  end

  def test_a_syntax_error
    dir = app("config.ru" => "require_relative 'shop'\nrun Shop\n", "shop.rb" => "class Shop\n  def self.call(env)\n    [200, {}, ['hello']\n  end\nend\n")
    server = fails(dir, "boot", "SyntaxError", "shop.rb:4", "[200, {}, ['hello']", "Ruby can't read shop.rb", "ruby -wc shop.rb", "ruby #{RUBY_VERSION}")
    write(dir, "shop.rb" => "Shop = ->(env) { [200, {}, ['hello']] }\n")
    mended(server)
  end

  def test_a_gem_that_the_gemfile_names_is_missing
    dir = app("config.ru" => HELLO, "Gemfile" => "source 'https://rubygems.org'\ngem 'rack'\ngem 'no-such-gem-here'\n")
    server = fails(dir, "bundler", "Bundler::GemNotFound", "no-such-gem-here", "bundle install")
    write(dir, "Gemfile" => "gem 'rack'\n")
    mended(server)
  end

  def test_a_gem_that_nobody_names_is_missing
    dir = app("config.ru" => "require 'no_such_gem_here'\n#{HELLO}")
    server = fails(dir, "boot", "LoadError: cannot load such file -- no_such_gem_here", "config.ru:1", "require 'no_such_gem_here'", "gem install no_such_gem_here")
    write(dir, "config.ru" => HELLO)
    mended(server)
  end

  def test_the_wrong_ruby
    dir = app("config.ru" => HELLO, "Gemfile" => "ruby '9.9.9'\ngem 'rack'\n")
    server = fails(dir, "bundler", "Bundler::RubyVersionMismatch", "asks for Ruby 9.9.9, and this is Ruby #{RUBY_VERSION}")
    write(dir, "Gemfile" => "gem 'rack'\n")
    mended(server)
  end

  def test_a_ruby_that_is_not_there
    dir = app("config.ru" => HELLO, "paceline.toml" => "ruby = \"/opt/no/ruby\"\n")
    fails(dir, "found", "could not start /opt/no/ruby", "Ruby was not found", "apt-get install ruby")
  end

  def test_a_missing_file
    dir = app("config.ru" => "KEYS = File.read('config/keys.yml')\n#{HELLO}", "config/keys.yml.example" => "a: b\n")
    server = fails(dir, "boot", "Errno::ENOENT: No such file or directory @ rb_sysopen - config/keys.yml", "config.ru:1", "cp config/keys.yml.example config/keys.yml")
    write(dir, "config/keys.yml" => "a: b\n")
    mended(server)
  end

  def test_a_ruby_that_is_older_than_the_application_asks_for
    dir = app("config.ru" => "BEERS = [1].map { it.then(}\n", ".ruby-version" => "9.9.9\n")
    fails(dir, "boot", "SyntaxError", ".ruby-version asks for Ruby 9.9.9, and this is Ruby #{RUBY_VERSION}")
  end

  # A variable that is missing, wrapped twice.
  def test_the_last_cause_is_what_happened
    rackup = "begin\n  begin\n    ENV.fetch('SMTP_HOST_OF_THE_SHOP')\n  rescue KeyError\n    raise ArgumentError, 'bad settings'\n  end\nrescue ArgumentError\n  raise 'no mailer'\nend\n"
    fails(app("config.ru" => rackup), "boot", "RuntimeError: no mailer", "caused by ArgumentError: bad settings", "caused by KeyError: key not found", "needs the environment variable SMTP_HOST_OF_THE_SHOP")
  end

  def test_no_such_rackup_file
    dir = app("config.ru" => HELLO, "paceline.toml" => "kind = \"rack\"\nrackup = \"shop.ru\"\n")
    server = fails(dir, "boot", "shop.ru")
    write(dir, "shop.ru" => HELLO)
    mended(server)
  end

  def test_permission_denied
    dir = app("config.ru" => "raise SystemCallError.new('log/production.log', Errno::EACCES::Errno, 'rb_sysopen')\n", "log/production.log" => "")
    server = fails(dir, "boot", "Errno::EACCES: Permission denied @ rb_sysopen - log/production.log", "config.ru:1", "log/production.log", "chown")
    write(dir, "config.ru" => HELLO)
    mended(server)
  end

  def test_what_the_app_printed_is_shown_to_the_last_line
    dir = app("config.ru" => "puts 'first words'\n500.times { |n| $stdout.print(\"line \#{n}\\n\") }\n$stderr.puts 'last words'\nexit 3\n")
    server = fails(dir, "boot", "SystemExit", "exit", "config.ru:4", "line 499", "last words")
    write(dir, "config.ru" => HELLO)
    mended(server)
  end

  def test_abort
    dir = app("config.ru" => "abort 'SHOP_KEY is not set'\n")
    fails(dir, "boot", "SystemExit: SHOP_KEY is not set", "config.ru:1")
  end

  def test_an_exit_without_a_word_of_ruby
    dir = app("config.ru" => "puts 'so long'\nexit! 7\n")
    fails(dir, "boot", "the preloader ended with status 7 before the app was ready", "so long")
  end

  def test_killed_for_memory_while_it_loads
    dir = app("config.ru" => "Process.kill(:KILL, Process.pid)\nsleep\n")
    server = fails(dir, "boot", "the preloader was killed by signal 9 (SIGKILL)", "out of memory", "dmesg")
    write(dir, "config.ru" => HELLO)
    mended(server)
  end

  def test_a_worker_killed_for_memory
    dir = app("config.ru" => HELLO, "config/puma.rb" => "workers 2\non_worker_boot { |n| Process.kill(:KILL, Process.pid); sleep }\n")
    server = fails(dir, "ready", "the worker was killed by signal 9 (SIGKILL)", "out of memory", "dmesg")
    write(dir, "config/puma.rb" => "workers 2\n")
    mended(server)
  end

  def test_a_boot_hook_that_raises
    dir = app("config.ru" => HELLO, "config/puma.rb" => "on_worker_boot do\n  puts 'connecting'\n  raise 'no cache server'\nend\n")
    server = fails(dir, "ready", "RuntimeError: no cache server", "config/puma.rb:3", "raise 'no cache server'", "connecting")
    write(dir, "config/puma.rb" => "")
    mended(server)
  end

  def test_a_hook_before_the_fork_that_raises
    dir = app("config.ru" => HELLO, "config/puma.rb" => "workers 2\nbefore_fork do\n  require 'no_such_gem_here'\nend\n")
    server = fails(dir, "fork", "LoadError: cannot load such file -- no_such_gem_here", "config/puma.rb:3", "require 'no_such_gem_here'", "gem install no_such_gem_here")
    write(dir, "config/puma.rb" => "workers 2\n")
    mended(server)
  end

  def test_the_start_up_time_out_shows_where_the_app_hung
    dir = app("config.ru" => "def waiting = sleep\nwaiting\n#{HELLO}", "paceline.toml" => "start_timeout = \"5s\"\n")
    server = fails(dir, "boot", "not ready after 5.00 s", "config.ru:1:in `waiting'", "start_timeout")
    eventually("the stuck preloader to go") { server.descendants.empty? }
    write(dir, "config.ru" => HELLO)
    mended(server)
  end

  def test_databases_and_servers_that_do_not_answer
    { ["PG::ConnectionBad", 'connection to server at "127.0.0.1", port 5432 failed: Connection refused'] => ["config/database.yml", "systemctl start postgresql"],
      ["ActiveRecord::NoDatabaseError", 'FATAL: database "shop_development" does not exist'] => ["db:prepare"],
      ["ActiveRecord::StatementInvalid", "SQLite3::SQLException: no such table: beers"] => ["db:prepare"],
      ["ActiveRecord::PendingMigrationError", "Migrations are pending."] => ["db:migrate"],
      ["Redis::CannotConnectError", "Error connecting to Redis on localhost:6379 (Errno::ECONNREFUSED)"] => ["systemctl start redis-server"] }
      .each do |(name, message), told|
      space, simple = name.split("::")
      dir = app("config.ru" => "module #{space}; class #{simple} < StandardError; end; end\nraise #{name}, #{message.inspect}\n", "config/database.yml" => "a: b\n", "Rakefile" => "", "bin/rails" => "")
      server = fails(dir, "boot", "#{name}: #{message}", "config.ru:2", *told)
      write(dir, "config.ru" => HELLO)
      mended(server)
      assert_equal 0, server.stop.exitstatus
    end
  end

  def test_a_failure_that_repeats_is_told_in_full_once
    server = fails(app("config.ru" => "raise 'broken'\n"), "boot", "RuntimeError: broken")
    id = server.output[/· (\h{8})$/, 1]
    eventually("another attempt") { page(server) && server.output.include?("(as before)") }
    assert_includes words(page(server).body), id
    assert_match(/^\* \S+ did not start \(boot\): RuntimeError: broken \(config\.ru:1\) \[#{id}\] \(as before\)$/, server.output)
    assert_equal 1, server.output.scan(/^RuntimeError: broken$/).size
  end

  def test_in_production_the_browser_gets_an_id_that_the_log_has_too
    dir = app("config.ru" => "secret_word = 1\nraise 'the password is hunter2'\n")
    server = serve(dir, "-e", "production", ready: false)
    id = server.wait_for(/· production .*· (\h{8})$/)[1]
    answer = page(server)
    assert_equal "503", answer.code
    assert_includes words(answer.body), id
    refute_match(/hunter2|secret_word|config\.ru|RuntimeError|#{Regexp.escape(dir)}/, answer.body)
    refute_match(/hunter2|secret_word|config\.ru|#{Regexp.escape(dir)}/, server.get("/").body)
    assert_match(/RuntimeError: the password is hunter2/, server.output)
    write(dir, "config.ru" => HELLO)
    mended(server)
  end

  # In development the page of a request that fails says what to do, too: the server's own, and one of the application's.
  def test_a_request_that_fails
    broken = "ENV.fetch('SMTP_HOST_OF_THE_SHOP')"
    { "run ->(env) { #{broken} }\n" => /<h1>KeyError<\/h1>/, "require 'sinatra/base'\nclass Shop < Sinatra::Base\n  get('/') { #{broken} }\nend\nrun Shop\n" => /<h1><strong>KeyError<\/strong>/ }.each do |rackup, own|
      dir = app("config.ru" => rackup)
      server = serve(dir)
      answer = page(server)
      assert_equal "500", answer.code
      assert_match own, answer.body
      assert_includes words(answer.body), "What to do The app needs the environment variable SMTP_HOST_OF_THE_SHOP, which is not set."
      plain = server.get("/", "Accept" => "text/html", "Accept-Encoding" => "identity")
      assert_equal plain.body.bytesize, Integer(plain["content-length"]) if plain["content-length"]
      assert_match(/^What to do\n  The app needs the environment variable/, server.get("/", "Accept" => "text/plain", "User-Agent" => "curl/8").body)
      eventually("the log") { server.output.match?(/raised KeyError/) }

      server = serve(dir, "-e", "production")
      production = page(server)
      assert_equal "500", production.code
      refute_match(/What to do|KeyError|SMTP_HOST|#{Regexp.escape(dir)}/, production.body)
      eventually("the log") { server.output.match?(/raised KeyError/) }
    end
  end

  # What fails in the new code is named, not the page that the application makes of it; and the old code goes on serving.
  def test_a_restart_whose_first_page_fails
    shop = ->(code) { "require 'sinatra/base'\nclass Shop < Sinatra::Base\n  get('/') { #{code} }\nend\nrun Shop\n" }
    dir = app("config.ru" => shop.("'hello'"))
    FileUtils.mkdir_p(File.join(dir, "tmp"))
    server = serve(dir, "-e", "production", "--control", "tmp/paceline.sock")
    assert_equal "200", page(server).code
    write(dir, "config.ru" => shop.("ENV.fetch('SMTP_HOST_OF_THE_SHOP')"))
    told, status = command(server, "restart", "--wait")
    assert_equal 1, status
    assert_match(/✗ check .* failed here$/, told)
    assert_match(/^KeyError: key not found: "SMTP_HOST_OF_THE_SHOP"\n  GET \/ raised it: the ready check of the new generation.$/, told)
    assert_match(/^What to do\n  The app needs the environment variable SMTP_HOST_OF_THE_SHOP/, told)
    assert_equal ["200", "hello"], [page(server).code, page(server).body]
  end

  # The example, whose database nobody has made.
  def brewery
    dir = app
    FileUtils.cp_r(Dir[File.join(BREWERY, "{app,bin,config,config.ru,db,lib,public,Gemfile,Rakefile}")], dir)
    FileUtils.rm_rf(Dir[File.join(dir, "db/*.sqlite3*"), File.join(dir, "config/puma.rb"), File.join(dir, "Gemfile.lock")])
    FileUtils.mkdir_p(%w[log tmp].map { |name| File.join(dir, name) })
    dir
  end

  # Rails itself, where it would answer every request with its own page.
  def test_rails_with_pending_migrations_and_what_its_requests_raise
    dir = brewery
    write(dir, "config/initializers/nothing.rb" => "Rails.application.routes.append { get '/nothing', to: ->(_) { Beer.connection.execute('SELECT * FROM old_beers') } }\n")
    out, status = Open3.capture2e({ "PACELINE_GEM_DIR" => File.join(CHECKOUT, "gem"), "RACK_ENV" => nil, "RAILS_ENV" => nil }.merge(AS_ROOT), BIN, "check", chdir: dir)
    assert_equal 1, status.exitstatus, out
    assert_match(/^What to do\n  2 migrations have not run on this database yet.\n\n      bin\/rails db:migrate$/, out)

    server = fails(dir, "boot", "ActiveRecord::PendingMigrationError: Migrations are pending.", "2 migrations have not run on this database yet.", "bin/rails db:migrate", arguments: ["-w", "1"])
    assert system({ "RAILS_ENV" => "development" }, RbConfig.ruby, "bin/rails", "db:migrate", chdir: dir, out: File::NULL)
    mended(server, "Brew")

    broken = server.get("/nothing", "Accept" => "text/html")
    assert_equal "500", broken.code
    assert_match(/StatementInvalid/, broken.body)
    assert_includes words(broken.body), "What to do The database has no table old_beers"
    server.wait_for(/raised ActiveRecord::StatementInvalid/)
    assert_equal 0, server.stop.exitstatus
  end

  def test_rails_with_a_broken_database_yml
    settings = File.read(File.join(BREWERY, "config/database.yml"))
    dir = brewery
    write(dir, "config/database.yml" => settings.sub("  timeout", "   timeout"))
    server = fails(dir, "boot", "YAML syntax error occurred while parsing", "config/database.yml:4", "config/database.yml, line 4 is not valid YAML", arguments: ["-w", "1"])
    { settings.sub("sqlite3", "sqlite4") => ["No gem of the bundle provides the adapter sqlite4 of config/database.yml"],
      settings.sub("sqlite3", "postgresql") => ["The app needs pg, but it is not in the Gemfile", "bundle add pg"],
      settings.sub(/^development:$/, "staging:") => ["config/database.yml has no section `development`"] }.each do |yaml, told|
      write(dir, "config/database.yml" => yaml)
      eventually(told.first) { told.all? { |said| bare(words(page(server).body)).include?(bare(said)) } }
      told.each { |said| eventually("#{said} on the terminal") { bare(server.output).include?(bare(said)) } }
    end
  end

  # Rails itself: its own messages, its own places.
  def test_rails
    dir = brewery
    initializer = ->(code) { write(dir, "config/initializers/zz_broken.rb" => "Rails.application.config.after_initialize do\n  #{code}\nend\n") }
    initializer.call("Beer.first")
    server = fails(dir, "boot", "ActiveRecord::StatementInvalid: SQLite3::SQLException: no such table: beers", "config/initializers/zz_broken.rb:2", "bin/rails db:prepare", arguments: ["-w", "1"])

    before = server.output.size
    write(dir, "config/initializers/zz_broken.rb" => "Rails.application.routes.draw { mount Sidekick::Web => '/sidekick' }\n")
    eventually("the next failure") { words(page(server).body).include?("uninitialized constant Sidekick") }
    server.wait_for(/at config\/initializers\/zz_broken.rb:1$/, from: before)

    File.delete(File.join(dir, "config/initializers/zz_broken.rb"))
    eventually("the next failure") { words(page(server).body).include?("PendingMigrationError") }
    assert_equal 0, server.stop.exitstatus
  end

  def test_rails_without_a_secret_key
    settings = "config/environments/production.rb"
    dir = brewery
    write(dir, settings => File.read(File.join(dir, settings)).sub(/^ENV\["SECRET_KEY_BASE"\].*?^end\n/m, ""))
    server = serve(dir, "-e", "production", "-w", "1", env: { "SECRET_KEY_BASE" => nil }, ready: false)
    # Rails 6.1 starts, and says it to the first request.
    server.wait_for(/ArgumentError: Missing `secret_key_base` for 'production' environment.*^What to do\n  The app has no secret key .*SECRET_KEY_BASE=.*^ +RAILS_ENV=production bin\/rails credentials:edit$/m)
    assert_includes %w[500 503], page(server).code
    refute_match(/secret_key_base/i, page(server).body)
  end
end
