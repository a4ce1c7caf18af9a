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

    def count
      n = 0
      n += 1 while n < 3_000_000
      n
    end
  RUBY
  ROUTES = { "/parse" => "settings.size", "/sleep" => "slowly && 1", "/program" => "program", "/own" => "count" }.freeze

  def line(text) = "config.ru:#{APP.lines.index { |one| one.include?(text) } + 1}"

  # The profile of three replays, as one.
  def profiled(path)
    files = { "config.ru" => APP + routes(ROUTES), "prices.yml" => Array.new(3000) { |n| "beer#{n}: #{n}\n" }.join }
    with_shadow(files) do |shadow|
      shadow.get(path)
      profiles = Array.new(3) { shadow.get(path, profile: true) }
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

  # Three replays of 100 ms, but for what passes after the last reading of each.
  def test_the_line_that_waits
    assert_operator assert_most("/sleep", "sleep 0.1", /sleep\z/, 0.5), :>, 200_000
  end

  # A guard stands before the method.
  def test_the_line_that_starts_a_program
    assert_most("/program", "`sleep", /`\z/, 0.5)
  end

  # It calls what Ruby has built in, or nothing.
  def test_the_line_that_computes
    assert_most("/own", "while n <", //, 0.5)
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
