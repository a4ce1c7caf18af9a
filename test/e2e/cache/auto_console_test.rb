# What processes beside the workers write is announced to the automatic page cache without a line of the application: by `bin/rails runner`, by a
# task of Rake and by a program that the server itself runs. The application is the brewery guide, with a copy and a database of its own.
require "json"
require "open3"
require_relative "../support/asking"
require_relative "../support/scenario"

class CacheAutoConsoleTest < Minitest::Test
  include Scenario
  include Asking

  # Below the checkout, so that the guide's Gemfile finds the gem.
  DIR = File.join(CHECKOUT, "tmp/auto-console-#{Process.pid}")
  ENVIRONMENT = { "RAILS_ENV" => "production", "BUNDLE_GEMFILE" => nil, "RUBYOPT" => nil, "PACELINE_AUTO_CACHE" => nil }.freeze
  SETTINGS = <<~TOML.freeze
    [auto_cache]
    mode = "watch"

    [[process]]
    command = "ruby bin/rails runner lib/orders.rb"
    restart = "never"
  TOML
  # Waits for a name, and gives it to a brewery.
  ORDERS = "Brewery.find(3).update!(name: File.read(\"orders\"))\n".freeze
  TASK = <<~RUBY.freeze

    task :rename, [:name] => :environment do |_, given|
      Brewery.transaction { Brewery.find(3).update!(name: given[:name]) }
    end
  RUBY

  def setup
    skip "Rails is not here" unless %w[rails sqlite3].all? { |name| Gem::Specification.find_all_by_name(name).any? }
    run_in(CHECKOUT, "test/brewery/prepare", DIR, "production")
    write(DIR, "paceline.toml" => SETTINGS, "lib/orders.rb" => ORDERS)
    File.write(File.join(DIR, "Rakefile"), TASK, mode: "a")
    @orders = barrier(DIR, "orders")
    @server = serve(DIR, "-w", "1", env: { "RAILS_ENV" => "production", "XDG_STATE_HOME" => File.join(DIR, "state") })
  end

  def teardown
    super
    FileUtils.rm_rf(DIR)
  end

  def test_a_runner_a_task_and_a_process_announce_what_they_write
    assert_announced("of the runner") { |name| rails("runner", "Brewery.find(3).update!(name: ARGV[0])", name) }
    assert_announced("of the task") { |name| run_in(DIR, RbConfig.ruby, "bin/rake", "rename[#{name}]") }
    assert_announced("of the process") { |name| Timeout.timeout(PATIENCE) { File.write(@orders.path, name) } }
  end

  def test_an_application_may_say_that_it_announces_nothing
    File.write(File.join(DIR, "config/initializers/announce.rb"), "Rails.application.config.paceline.announce = false\n")
    assert_dropped_by(/another program/, "of nobody") { |name| rails("runner", "Brewery.find(3).update!(name: ARGV[0])", name) }
  end

  private

  def assert_announced(name, &) = assert_dropped_by(/\AUPDATE "?breweries/, name, &)

  # The page was there, and is not once the block has written, for this reason.
  def assert_dropped_by(reason, name)
    page = "/breweries/3"
    eventually("a page to be kept") { get(page) && why(page)["pages"].any? }
    yield name
    eventually("the write to be known") { why(page).dig("written", "by")&.match?(reason) && get(page).body.include?(name) }
  end

  def get(path)
    answer = @server.get(path)
    assert_equal "200", answer.code, answer.body
    answer
  end

  def why(path) = command_json(@server, "cache", "why", "http://127.0.0.1:#{@server.port}#{path}", "--json")

  def rails(*arguments) = run_in(DIR, RbConfig.ruby, "bin/rails", *arguments)

  def run_in(dir, *command)
    out, status = Open3.capture2e(ENVIRONMENT, *command, chdir: dir)
    assert_predicate status, :success?, out
  end
end
