# frozen_string_literal: true

# What is made of the output of wrk, ab and oha: figures where every answer was right, and what was wrong otherwise. Their programs run where they are installed,
# against a scripted server.
require "minitest/autorun"
require "tmpdir"
require_relative "../lib/generators"
require_relative "../lib/scenarios"
require_relative "../serve/options"
require_relative "support/answering"

class GeneratorsTest < Minitest::Test
  include Bench
  include Answering

  WRK = <<~TEXT
    Running 2s test @ http://127.0.0.1:8080/hello
      1 threads and 64 connections
      Thread Stats   Avg      Stdev     Max   +/- Stdev
        Latency     1.10ms    1.24ms  30.64ms   92.93%
        Req/Sec    33.90k     3.39k   39.03k    61.90%
      Latency Distribution
         50%  737.00us
         75%    1.24ms
         90%    2.08ms
         99%    6.38ms
      70781 requests in 2.10s, 9.65MB read
    Requests/sec:  33707.51
    Transfer/sec:      4.60MB
  TEXT
  AB = <<~TEXT
    Document Path:          /hello
    Document Length:        27 bytes

    Concurrency Level:      64
    Time taken for tests:   2.000 seconds
    Complete requests:      12340
    Failed requests:        0
    Keep-Alive requests:    12340
    Total transferred:      1727600 bytes
    HTML transferred:       333180 bytes
    Requests per second:    6170.00 [#/sec] (mean)
  TEXT
  TIMES = "Percentage served,Time in ms\n0,0.051\n50,0.612\n99,3.250\n100,9.000\n"
  OHA = { "summary" => { "successRate" => 1.0, "total" => 2.003, "requestsPerSec" => 30_000.0, "totalData" => 1_622_430, "sizePerRequest" => 27 },
          "latencyPercentiles" => { "p50" => 0.0012, "p99" => 0.0061 }, "statusCodeDistribution" => { "200" => 60_090 }, "errorDistribution" => {} }.freeze

  def test_the_figures_of_wrk
    found = read("wrk", WRK)
    assert_equal [70_781, [], 0.737, 6.38], [found[:completed], wrong(found[:failures]), *found.values_at(:p50, :p99).map { |seconds| (seconds * 1000).round(3) }]
    assert_in_delta 33_707.51, found[:completed] / found[:seconds], 0.01
    assert_equal [2.08, 61.2], read("wrk", WRK.sub("737.00us", "2.08s").sub("6.38ms", "1.02m")).values_at(:p50, :p99)
  end

  def test_errors_that_wrk_tells_are_told
    told = read("wrk", "#{WRK.sub(/^Requests/, "  Socket errors: connect 0, read 7, write 0, timeout 2\n  Non-2xx or 3xx responses: 3\nRequests")}")[:failures]
    assert_equal [["wrk: read errors", 7], ["wrk: timeout errors", 2], ["wrk: non-2xx responses", 3]], wrong(told)
  end

  # A redirect or an empty page is no error to it, and the bytes say so.
  def test_answers_of_another_length_are_told
    assert_match(/answers of 14\d bytes instead of/, wrong(read("wrk", WRK, kind("x" * 200))[:failures])[0][0])
    assert_equal [["ab: 27 bytes instead of 28", 12_340]], wrong(read("ab", AB, kind("x" * 28))[:failures]).first(1)
    assert_equal "answers of 27 bytes instead of 29", wrong(read("oha", JSON.generate(OHA), kind("x" * 30))[:failures])[0][0]
  end

  def test_the_figures_of_ab
    assert_equal [12_340, 2.0, 0.000612, 0.00325, []], read("ab", AB).values_at(:completed, :seconds, :p50, :p99).push(wrong(read("ab", AB)[:failures]))
    spoilt = AB.sub("Failed requests:        0", "Failed requests:        4").sub("Keep-Alive", "Non-2xx responses:      5\nKeep-Alive")
    assert_equal [["ab: failed requests", 4], ["ab: non-2xx responses", 5]], wrong(read("ab", spoilt)[:failures])
  end

  def test_the_figures_of_oha
    assert_equal [60_090, 2.003, 0.0012, 0.0061, []], read("oha", JSON.generate(OHA)).values_at(:completed, :seconds, :p50, :p99, :failures)
    spoilt = OHA.merge("statusCodeDistribution" => { "200" => 10, "302" => 2 }, "errorDistribution" => { "connection error" => 3 })
    assert_equal [["oha: connection error", 3], ["oha: status 302", 2]], read("oha", JSON.generate(spoilt))[:failures]
  end

  def test_output_that_is_not_understood_is_no_figure
    { "wrk" => WRK.sub("Requests/sec", "Requests"), "ab" => AB.sub("Complete", "Done"), "oha" => "{}" }.each do |name, text|
      error = assert_raises(NoResult) { foreign(name).send(:result, text, folder_of_times, Struct.new(:success?).new(true), 0.1) }
      assert_match(/the output of #{name} is not understood/, error.message)
    end
    ended = Struct.new(:success?, :exitstatus).new(false, 7)
    assert_match(/ab ended with 7: apr_socket_recv/, assert_raises(NoResult) { foreign("ab").send(:result, "apr_socket_recv: reset\n", folder_of_times, ended, 0.1) }.message)
  end

  def test_they_ask_for_the_scenarios_that_they_can
    hello, mixed, upload = Scenarios.named(%w[hello mixed upload])
    shape = Shape.new(64, true)
    assert_equal [true, false, false, false], [foreigner.takes?(hello, shape), foreigner.takes?(mixed, shape), foreigner.takes?(upload, shape), foreigner.takes?(hello, Shape.new(nil, true, 40))]
    assert Generators::OURS.takes?(mixed, shape)
  end

  def test_their_figures_of_a_server_that_answers
    %w[wrk ab].each do |name|
      generator = Generators.named([name]).first
      next if Generators.missing([generator])

      [true, false].each do |keep_alive|
        result = asked(generator, keep_alive, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: #{keep_alive ? "keep-alive" : "close"}\r\n\r\nhello", closes: !keep_alive)
        assert_empty result.failures, "#{name}, kept: #{keep_alive}"
        assert_operator result.completed, :>, 10, "#{name}, kept: #{keep_alive}"
        assert_operator result.p50, :<=, result.p99
      end
      wrong = asked(generator, true, "HTTP/1.1 500 Oops\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\nhello")
      assert_match(/non-2xx/, wrong.failures.map(&:first).join(" "), name)
    end
  end

  def test_a_generator_that_is_not_there_is_named_with_what_to_do
    _, told = capture_io do
      path, ENV["PATH"] = ENV["PATH"], "/nowhere"
      assert_raises(SystemExit) { Options.parse(%w[--generator oha hello]) }
    ensure
      ENV["PATH"] = path
    end
    assert_includes told, "there is no `oha` on PATH"
    _, told = capture_io { assert_raises(SystemExit) { Options.parse(%w[--generator siege]) } }
    assert_includes told, "no generator siege; there are ours, wrk, oha, ab"
  end

  private

  def kind(content = Scenarios::HELLO) = Kind.new("k", "/hello", expected: content.b)
  def foreigner = Generators.named(%w[wrk]).first
  def wrong(failures) = failures.select { |_, times| times.positive? }

  def read(name, text, kind = kind()) = Generators.named([name]).first.read(text, folder_of_times, kind)

  def folder_of_times
    @folder ||= Dir.mktmpdir.tap { |folder| File.write(File.join(folder, "times"), TIMES) }
  end

  def teardown = @folder && FileUtils.rm_rf(@folder)

  def foreign(name) = ForeignLoad.new(Generators.named([name]).first, port: 1, mix: [[kind, 1.0]], connections: 1, keep_alive: true, seconds: 1)

  def asked(generator, keep_alive, answer, closes: false)
    serving(answer, closes) { |port| generator.load(port: port, mix: [[kind("hello"), 1.0]], connections: 2, keep_alive: keep_alive, seconds: 0.5).run }
  end
end
