# frozen_string_literal: true

require_relative "support/shadow_case"

# Where a replayed request spends its time, by the application's lines.
class ShadowProfileTest < ShadowCase
  APP = <<~'RUBY'
    require "yaml"
    PRICES = File.join(__dir__, "prices.yml")

    def settings
      YAML.load_file(PRICES)
    end

    def slowly
      sleep 0.1
    end

    def program
      `sleep 0.1`
    end

    def loaded
      load "#{__dir__}/rates.rb"
      Rates.of(7)
    end

    LIST = Array.new(100_000) { |n| "beer #{n}" }

    def copied
      Marshal.load(Marshal.dump(LIST))
    end

    def one_half
      m = 0
      m += 1 while m < 25_000
      m
    end

    def other_half
      m = 0
      m += 1 until m >= 25_000
      m
    end

    def churn
      text = +""
      2000.times do |n|
        text += "beer number #{n} of the brewery in the north, in bottles and in barrels"
      end
      text.size
    end

    def count
      n = 0
      n += 1 while n < 3_000_000
      n
    end
  RUBY
  ROUTES = { "/parse" => "settings.size", "/sleep" => "slowly && 1", "/program" => "program", "/own" => "count", "/churn" => "churn",
             "/loaded" => "loaded", "/copied" => "copied.size", "/short" => "one_half + other_half" }.freeze

  def line(text) = "config.ru:#{APP.lines.index { |one| one.include?(text) } + 1}"

  # The profile of some replays, as one.
  def profiled(path, replays: 3)
    files = { "config.ru" => APP + routes(ROUTES), "prices.yml" => Array.new(3000) { |n| "beer#{n}: #{n}\n" }.join,
              "rates.rb" => "module Rates\n#{Array.new(9000) { |n| "  def self.rate_#{n} = #{n}\n" }.join}  def self.of(number) = rate_7 + number\nend\n" }
    with_shadow(files) do |shadow|
      shadow.get(path)
      profiles = Array.new(replays) { shadow.get(path, profile: true) }
      assert_equal shadow.get(path)["text"], profiles.last["text"]
      lines = profiles.flat_map { |one| one["profile"]["lines"] }
      yield lines, profiles.sum { |one| one["profile"]["total_us"] }
    end
  end

  def most(lines)
    lines.group_by { |line| line.values_at("at", "call") }.transform_values { |all| all.sum { |line| line["us"] } }.max_by(&:last)
  end

  # Most of the time of PATH passes in the line with TEXT, in what it CALLS: more than PART of it. Returns the microseconds.
  def assert_most(path, text, calls, part)
    profiled(path) do |lines, total|
      (at, call), us = most(lines)
      assert_equal line(text), at
      assert_match calls, call
      assert_operator us, :>, total * part
      us
    end
  end

  def test_the_line_that_calls_a_library_and_what_it_calls
    assert_most("/parse", "YAML.load_file", /load_file \(psych\)\z/, 0.5)
  end

  # Three replays of 100 ms.
  def test_the_line_that_waits
    assert_operator assert_most("/sleep", "sleep 0.1", /sleep\z/, 0.5), :>, 290_000
  end

  # A guard stands before the method.
  def test_the_line_that_starts_a_program
    assert_most("/program", "`sleep", /`\z/, 0.5)
  end

  # It calls what Ruby has built in, or nothing.
  def test_the_line_that_computes
    assert_most("/own", "while n <", //, 0.5)
  end

  # Ruby hears the signal at the end of the block.
  def test_the_line_within_a_block
    assert_most("/churn", "text +=", //, 0.5)
  end

  # What the file does that is loaded is no work of its own lines.
  def test_the_line_that_loads_code
    assert_most("/loaded", "load ", /load\z/, 0.5)
  end

  def test_the_line_that_copies
    profiled("/copied") do |lines, total|
      copies = lines.select { |one| one["at"] == line("Marshal.load(") && ["dump", "load (marshal)"].include?(one["call"].delete_prefix("Marshal.")) }
      assert_operator copies.sum { |one| one["us"] }, :>, total * 0.5, lines.inspect
    end
  end

  # A request that ends before the kernel's next tick has one reading or none: over many replays each of its lines is found.
  def test_the_lines_of_a_short_request
    profiled("/short", replays: 400) do |lines, total|
      parts = ["while m", "until m"].map { |text| lines.select { |one| one["at"] == line(text) }.sum { |one| one["us"] }.fdiv(total) }
      parts.each { |part| assert_operator part, :>, 0.05, parts.inspect }
    end
  end

  # A middleware that has others work, one around it that only waits for the application, and an application that works with the same lines.
  STACK = <<~'RUBY'
    require "yaml"
    PRICES = File.join(__dir__, "prices.yml")

    module Prices
      def self.all = YAML.load_file(PRICES)
    end

    class Rates
      def initialize(app)
        @app = app
      end

      def call(env)
        Prices.all
        @app.call(env)
      end
    end

    class Around
      def initialize(app)
        @app = app
      end

      def call(env)
        [env].each { |one| return @app.call(one) }
      end
    end

    class Shop
      def call(env)
        [200, {}, [page(env).to_s]]
      end

      def page(_env) = [1, 2].sum { |_| Prices.all.size }
    end

    use Around
    use Rates
    use Around
    run Shop.new
  RUBY

  def test_in_which_middleware_a_line_is
    files = { "config.ru" => STACK, "prices.yml" => Array.new(1000) { |n| "beer#{n}: #{n}\n" }.join }
    with_shadow(files) do |shadow|
      shadow.get("/")
      shadow.get("/", observe: true) # what it puts before each `call` is none
      lines = Array.new(12) { shadow.get("/", profile: true) }.flat_map { |one| one["profile"]["lines"] }
      times = lines.select { |one| one["at"] == "config.ru:5" }.group_by { |one| one["middleware"] }.transform_values { |all| all.sum { |one| one["us"] } }
      assert_equal ["", "Rates"], times.keys.sort
      assert_in_delta 2, times[""].fdiv(times["Rates"]), 0.8
    end
  end

  def test_in_no_middleware_that_is_known
    profiled("/parse") { |lines, _| assert_equal [""], lines.map { |one| one["middleware"] }.uniq - [nil] }
  end

  # What handled the signal before handles it again.
  def test_nothing_is_left_behind
    app = "$heard = 0\ntrap('PROF') { $heard += 1 }\n#{APP}"
    with_shadow(app + routes("/own" => "count", "/heard" => "Process.kill(:PROF, Process.pid); sleep 0.01; [$heard, Thread.list.size]")) do |shadow|
      heard = -> { JSON.parse(shadow.get("/heard")["text"]) }
      before = heard.call
      shadow.get("/own", profile: true)
      assert_equal [before.first + 1, before.last], heard.call
      assert_nil shadow.get("/own")["profile"]
    end
  end
end
