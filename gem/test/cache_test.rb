# frozen_string_literal: true

require "helper"
require "paceline"
require "json"

# Purges against a scripted server on a socket.
class CacheTest < Paceline::Test
  def setup
    @before = ENV["PACELINE_CONTROL"]
    Paceline::Cache.instance_variable_set(:@warned, nil)
  end

  def teardown
    ENV["PACELINE_CONTROL"] = @before
  end

  # A server that answers each request with what the block makes of it (head, body); yields the requests it got.
  def with_server(answer, path: nil)
    in_tmpdir do |dir|
      path = path ? File.join(dir, path) : File.join(dir, "paceline.sock")
      FileUtils.mkdir_p(File.dirname(path))
      ENV["PACELINE_CONTROL"] = path
      server = Dir.chdir(File.dirname(path)) { UNIXServer.new(File.basename(path)) }
      requests = Queue.new
      serving = Thread.new do
        loop do
          io = server.accept
          Thread.new do
            head = io.gets("\r\n\r\n")
            body = io.read(head[/content-length: (\d+)/i, 1].to_i)
            requests << [head.lines.first.chomp, body]
            answer.respond_to?(:call) ? answer.call(io) : io.write(answer)
            io.close
          end
        end
      end
      yield requests
    ensure
      serving&.kill&.join
      server&.close
    end
  end

  def ok(json) = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n#{json}\n"

  def test_what_is_asked
    with_server(ok('{"purged":3}')) do |requests|
      { { url: "http://shop.test/a" } => { "url" => "http://shop.test/a", "soft" => false },
        { tag: :"issue-42", soft: true } => { "tag" => "issue-42", "soft" => true },
        { tag: "a \"b\" \\ \n\u0001 ä" } => { "tag" => "a \"b\" \\ \n\u0001 ä", "soft" => false },
        { tag: "\xE4".dup.force_encoding("ISO-8859-1") } => { "tag" => "ä", "soft" => false },
        { prefix: "http://shop.test/" } => { "prefix" => "http://shop.test/", "soft" => false },
        { all: true } => { "all" => true, "soft" => false } }.each do |given, sent|
        assert_equal 3, Paceline.cache.purge(**given)
        line, body = requests.pop
        assert_equal ["POST /cache/purge HTTP/1.1", sent], [line, JSON.parse(body)]
      end
    end
  end

  def test_statistics
    with_server(ok('{"bytes":1,"top":[{"url":"http://shop.test/ä"}]}')) do |requests|
      assert_equal "http://shop.test/ä", Paceline.cache.stats.dig("top", 0, "url")
      assert_equal "GET /cache/stats HTTP/1.1", requests.pop.first
    end
  end

  def test_what_makes_no_sense_is_an_argument_error
    [{}, { url: nil }, { all: false }, { url: "a", tag: "b" }, { tag: "" }, { tag: "\xFF" }, { tag: "\xFF".b }].each do |given|
      assert_raises(ArgumentError, given.inspect) { Paceline.cache.purge(**given) }
    end
    with_server("HTTP/1.1 400 Bad Request\r\n\r\n{\"error\":\"\\\"a\\\" is no URL\"}\n") do
      error = assert_raises(ArgumentError) { Paceline.cache.purge(url: "a") }
      assert_equal '"a" is no URL', error.message
    end
  end

  def test_without_a_server_it_warns_once
    in_tmpdir do |dir|
      ENV["PACELINE_CONTROL"] = File.join(dir, "none.sock")
      _, warned = capture_io { 2.times { assert_nil Paceline.cache.purge(all: true) } }
      assert_equal 1, warned.lines.size
      assert_match(/can't be reached at .*none\.sock/, warned)
      assert_raises(Paceline::Cache::Unreachable) { Paceline.cache.purge!(all: true) }
      assert_nil Paceline.cache.stats
      ENV["PACELINE_CONTROL"] = "off"
      assert_match(/no control socket/, assert_raises(Paceline::Cache::Unreachable) { Paceline.cache.purge!(all: true) }.message)
    end
  end

  def test_what_is_no_server_is_unreachable
    ["SSH-2.0\r\n", "", "HTTP/1.1 500 Internal Server Error\r\n\r\n{}", ok("{}")].each do |answer|
      with_server(answer) do
        assert_raises(Paceline::Cache::Unreachable, answer) { Paceline.cache.purge!(all: true) }
      end
    end
  end

  def test_a_server_that_says_nothing_is_given_up
    waiting = Queue.new
    with_server(->(_io) { waiting.pop }) do
      cache = Paceline::Cache.dup
      cache.singleton_class.define_method(:now) { (@calls = @calls.to_i + 1) * 10 } # each look at the clock takes ten seconds
      cache.singleton_class.send(:private, :now)
      assert_match(/does not answer/, assert_raises(Paceline::Cache::Unreachable) { cache.purge!(all: true) }.message)
    ensure
      waiting << nil
    end
  end

  def test_a_long_path
    with_server(ok('{"purged":0}'), path: "#{"x" * 120}/paceline.sock") { assert_equal 0, Paceline.cache.purge(all: true) }
  end

  def test_threads_and_forks
    with_server(ok('{"purged":1}')) do
      assert_equal [1] * 8, Array.new(8) { Thread.new { Paceline.cache.purge(all: true) } }.map(&:value)
      pid = fork { exit!(Paceline.cache.purge(all: true) == 1) }
      Process.wait(pid)
      assert_predicate $?, :success?
    end
  end

  def test_it_is_looked_for_below_the_root
    ENV["PACELINE_CONTROL"] = nil
    in_tmpdir { |dir| Dir.chdir(dir) { assert_equal File.join(dir, "tmp/paceline.sock"), Paceline.cache.socket } }
  end
end
