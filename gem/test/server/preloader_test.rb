# frozen_string_literal: true

require "helper"
require "paceline/native"

# Loading the app: the steps told, what is loaded for each kind, and a report for each way it can fail.
class PreloaderTest < Paceline::Test
  def fails(files, **settings)
    with_front(files, err: File::NULL, **settings) do |front, dir|
      frame = front.await_start
      assert_equal F::FAILED, frame.type, frame.payload
      assert_equal 1, Process.wait2(front.pid)[1].exitstatus
      return yield(frame.pairs, dir, front)
    end
  end

  def serves(files, **settings)
    with_front(files, **settings) do |front, dir|
      frame = front.await_start
      assert_equal F::LOADED, frame.type, frame.payload
      worker = front.fork_worker
      worker.await(F::READY)
      worker.channels[1].send(F::REQUEST, FakeFront.request)
      return yield(FakeFront.answer(worker.channels[1]), front, dir, frame.pairs)
    end
  end

  def test_steps_and_versions
    serves({ "config.ru" => "run ->(env) { [200, {}, [Dir.pwd, ENV.values_at('RACK_ENV', 'RAILS_ENV', 'APP_ENV').inspect]] }" }) do |answer, front, dir, loaded|
      assert_equal "#{dir}#{%w[test test test].inspect}", answer.body
      assert_equal [%w[bundler begin], %w[bundler done], %w[boot begin], %w[boot done], %w[preload begin], %w[preload done]],
                   (front.steps.map { |step| step.first(2) })
      times = front.steps.map { |step| Integer(step[2]) }
      assert_equal times.sort, times
      assert_equal RUBY_VERSION, loaded["ruby"]
      assert_equal "", loaded["rails"]
      assert_equal Paceline::NativePart.missing || "yes", loaded["native"]
      assert_includes ["", "on"], loaded["yjit"], "in test nobody wants it"
      assert_equal front.pid.to_s, loaded["pid"]
    end
  end

  def test_the_shim_activates_no_gem
    script = "before = Gem.loaded_specs.keys; require ARGV[0]; print (Gem.loaded_specs.keys - before).join(' ')"
    assert_equal "", IO.popen([RbConfig.ruby, "-e", script, FakeFront::PRELOADER], &:read)
  end

  def test_bundler
    files = {
      "Gemfile" => "source 'https://rubygems.org'\ngem 'rack'\n",
      "config.ru" => "run ->(env) { [200, {}, [defined?(Bundler).to_s, ENV['BUNDLE_GEMFILE']]] }"
    }
    serves(files, gemfile: "Gemfile") do |answer, _front, dir|
      assert_equal "constant#{dir}/Gemfile", answer.body
    end
  end

  def test_classic_sinatra
    serves({ "app.rb" => "require 'sinatra'\nset :environment, :production\nget('/') { 'classic ' + settings.root }" },
           kind: "sinatra", environment: "production") do |answer, _front, dir|
      assert_equal "classic #{dir}", answer.body
    end
  end

  def test_rackup_of_another_name
    serves({ "other.ru" => "run ->(env) { [200, {}, ['other']] }" }, rackup: "other.ru") do |answer|
      assert_equal "other", answer.body
    end
  end

  def test_load_in_each_worker
    serves({ "config.ru" => "pid = Process.pid\nrun ->(env) { [200, {}, [(pid == Process.pid).to_s]] }" }, preload: "0") do |answer|
      assert_equal "true", answer.body
    end
  end

  def test_failure_in_a_worker_that_loads_the_app
    with_front({ "config.ru" => "raise 'too late'" }, preload: "0") do |front|
      assert_equal F::LOADED, front.await_start.type
      worker = front.fork_worker
      pairs = worker.await(F::WORKER_FAILED).pairs
      assert_equal ["boot", "RuntimeError", "too late", RUBY_VERSION], pairs.values_at("step", "class", "message", "ruby")
      assert_equal [worker.pid.to_s, "1"], front.control.await(F::EXITED).fields
    end
  end

  # What Rails would answer its first request with.
  def test_pending_migrations
    rails = <<~RUBY
      Entry = Struct.new(:name, :klass)
      Check = Struct.new(:app) { def call(env) = raise("Migrations are pending.") }
      module Rails
        Application = Struct.new(:middleware)
        def self.application = @application ||= Application.new([Entry.new("Rack::Sendfile"), Entry.new(ENV.fetch("CHECK"), Check)])
        def self.version = "8.0"
      end
      run ->(env) { [200, {}, []] }
    RUBY
    fails({ "config.ru" => "ENV['CHECK'] = 'ActiveRecord::Migration::CheckPending'\n#{rails}" }) do |pairs|
      assert_equal ["boot", "Migrations are pending."], pairs.values_at("step", "message")
    end
    serves({ "config.ru" => "ENV['CHECK'] = 'Rack::Lock'\n#{rails}" }) { |answer| assert_equal 200, answer.status }
  end

  def test_exception_while_booting
    fails({ "config.ru" => "require_relative 'lib/x'", "lib/x.rb" => "\n\nnil.upcase\n" }) do |pairs, dir|
      assert_equal %w[boot NoMethodError], pairs.values_at("step", "class")
      assert_equal [File.join(dir, "lib/x.rb"), "3"], pairs.values_at("file", "line")
      assert_match(/undefined method/, pairs["message"])
      assert_match(%r{lib/x.rb:3}, pairs["backtrace"].lines.first)
    end
  end

  def test_suggestion_of_did_you_mean
    fails({ "config.ru" => "run_it = 1\nrun_itt" }) do |pairs|
      assert_match(/Did you mean\?\s+run_it/, pairs["message"] + pairs["detail"])
    end
  end

  def test_syntax_error
    fails({ "config.ru" => "require_relative 'x'", "x.rb" => "def a\n  1 +\nend\n" }) do |pairs, dir|
      assert_equal "SyntaxError", pairs["class"]
      assert_equal File.join(dir, "x.rb"), pairs["file"]
      assert_match(/\A[23]\z/, pairs["line"])
    end
  end

  def test_syntax_error_in_the_rackup_file
    fails({ "config.ru" => "# one\nrun (\n" }) do |pairs, dir|
      assert_equal "SyntaxError", pairs["class"]
      assert_equal File.join(dir, "config.ru"), pairs["file"]
    end
  end

  def test_missing_library
    fails({ "config.ru" => "require 'not_here'" }) do |pairs|
      assert_equal "LoadError", pairs["class"]
      assert_match(/cannot load: not_here/, pairs["detail"])
      assert_equal "1", pairs["line"]
    end
  end

  def test_missing_gem
    fails({ "Gemfile" => "gem 'surely-no-such-gem', path: 'nowhere'\n", "config.ru" => "run 1" }, gemfile: "Gemfile") do |pairs|
      assert_equal "bundler", pairs["step"]
      assert_match(/\ABundler::/, pairs["class"])
      assert_match(/Gemfile: /, pairs["detail"])
    end
  end

  def test_wrong_ruby
    fails({ "Gemfile" => "ruby '2.0.0'\n", "config.ru" => "run 1" }, gemfile: "Gemfile") do |pairs|
      assert_equal %w[bundler Bundler::RubyVersionMismatch], pairs.values_at("step", "class")
      assert_match(/2\.0\.0/, pairs["message"])
    end
  end

  def test_cause
    fails({ "config.ru" => "begin; Integer('x'); rescue; raise 'outer'; end" }) do |pairs|
      assert_equal "outer", pairs["message"]
      assert_match(/\AArgumentError: invalid value/, pairs["cause"])
    end
  end

  def test_exit_and_abort
    fails({ "config.ru" => "exit 4" }) do |pairs|
      assert_equal "SystemExit", pairs["class"]
      assert_match(/status 4/, pairs["message"])
    end
    fails({ "config.ru" => "abort 'no database'" }) do |pairs|
      assert_equal "no database", pairs["message"]
    end
  end

  def test_missing_rackup_file_and_missing_root
    fails({ "other" => "" }) { |pairs| assert_equal %w[boot Errno::ENOENT], pairs.values_at("step", "class") }
    fails({}, root: File.join(__dir__, "no/root")) { |pairs| assert_equal "Errno::ENOENT", pairs["class"] }
  end

  def test_message_that_raises
    fails({ "config.ru" => "raise Class.new(StandardError) { def message = raise('again') }" }) do |pairs|
      assert_match(/its message raised/, pairs["message"])
    end
  end

  def test_front_gone_while_the_app_boots
    with_front({ "config.ru" => "$stdout.puts 'booting'; $stdout.flush; sleep" }, out: (pipe = IO.pipe)[1]) do |front|
      pipe[1].close
      assert_equal "booting\n", pipe[0].gets
      front.control.close
      assert_equal 1, Process.wait2(front.pid)[1].exitstatus
    end
  end

  def test_garbage_ends_the_preloader
    with_front({ "config.ru" => "run ->(env) {}" }, err: File::NULL) do |front|
      assert_equal F::LOADED, front.await_start.type
      front.control.send(F::FORK, "no NUL")
      assert_nil front.control.read
    end
  end
end
