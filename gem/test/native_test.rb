# frozen_string_literal: true

require "helper"
require "paceline/server/headers"
require "paceline/native"

# The native part beside its twin in Ruby: the same env and the same bytes, or nil where it leaves the decision to the twin.
class NativeTest < Paceline::Test
  N = Paceline::Native

  def setup
    skip "the native part is not built for this Ruby, or switched off" unless N
  end

  def frame(pairs, body = "")
    F.frame(F::REQUEST, FakeFront.request(pairs, body: body))
  end

  def test_env_is_what_ruby_makes_of_the_frame
    random = Random.new(7)
    names = %w[HTTP_COOKIE HTTP_X_ODD HTTP_ CONTENT_TYPE HTTP_X_REQUEST_ID] + Array.new(30) { |n| "HTTP_N#{n}" }
    200.times do
      pairs = names.sample(random.rand(30), random: random).to_h { |name| [name, random.bytes(random.rand(60)).delete("\0")] }
      whole = frame(pairs)
      _, expected, = F.parse_request(whole)
      got = N.env(whole, ["rack.errors", $stderr].freeze)
      assert_equal expected.merge("rack.errors" => $stderr), got
      got.each_value { |value| value.is_a?(String) and refute_predicate(value, :frozen?) }
    end
  end

  def test_env_of_broken_and_of_huge_frames_is_left_to_ruby
    [frame({}).byteslice(0, 16), "\0\0\0\x0d\x21\0\0\0\0\0\0\0\1\1\xff\xff\xff\xff".b, F.frame(F::REQUEST, "\0\0\0\0\0\0\0\1\1\0\0\0\3a\0b"),
     F.frame(F::REQUEST, "\0\0\0\0\0\0\0\1\1\0\0\0\2a\0"), frame(Array.new(300) { |n| ["HTTP_#{n}", "1"] }.to_h)].each do |odd|
      assert_nil N.env(odd, [].freeze)
    end
  end

  def test_headers_are_what_ruby_makes_of_them
    plain = { "content-type" => "text/html; charset=utf-8", "X-A" => "", "x-umlaut" => "\u00fc", "x-bytes" => "\xff" }
    assert_equal Paceline::Server::Headers.new.encode(plain), N.header_pairs(plain)
    [{ "a" => 1 }, { a: "1" }, { "a" => %w[1 2] }, { "a" => "1\n2" }, { "a" => "1\r" }, { "a" => "\0" }, { "a b" => "1" }, { "" => "1" },
     { "rack.hijack" => "1" }, { "a" => nil }, [%w[a 1]], nil, Class.new(Hash)["a", "1"], { "\u00fc" => "1" }].each do |odd|
      assert_nil N.header_pairs(odd), odd.inspect
    end
  end

  def test_a_response_is_what_ruby_makes_of_it
    counted = F::Counters.new(2, 3, 4, 5, 2**40, "render\x0012\x001\0")
    headers = { "content-type" => "text/plain", "x-a" => "1" }
    [[], ["one", "", "two"], ["x" * 70_000, "y"], Array.new(200) { "z" * 5000 }, Array.new(5000) { "m" }].each do |parts|
      expected = F.response_head(2**63 + 9, 201, F::BUSY, counted, Paceline::Server::Headers.new.encode(headers), parts.sum(&:bytesize)) + parts.join
      ours, theirs = UNIXSocket.pair
      reader = Thread.new { theirs.read }
      assert_equal :sent, N.respond(ours.fileno, nil, 2**63 + 9, 201, F::BUSY, counted, headers, parts)
      ours.close
      assert_equal expected, reader.value
    ensure
      theirs&.close
    end
  end

  def test_nothing_is_sent_of_a_response_that_is_left_to_ruby
    counted = F::Counters.new(0, 0, 0, 0, 0, "")
    ours, theirs = UNIXSocket.pair
    [[{ "a" => 1 }, ["x"]], [{}, [:x]], [{}, ["x" * (F::MAX_RESPONSE + 1)]]].each do |headers, parts|
      assert_equal false, N.respond(ours.fileno, nil, 1, 200, 0, counted, headers, parts)
    end
    ours.close
    assert_equal "", theirs.read
  ensure
    theirs&.close
  end

  def test_a_full_socket_is_waited_for_and_a_closed_one_raises
    ours, theirs = UNIXSocket.pair
    bytes = Random.new(1).bytes(3_000_000)
    reader = Thread.new { theirs.read(bytes.bytesize) }
    N.send_all(ours.fileno, bytes)
    assert_equal bytes, reader.value
    theirs.close
    assert_raises(Errno::EPIPE) { N.send_all(ours.fileno, "more") }
    assert_nil N.receive(ours.fileno, 10)
  ensure
    ours&.close
  end

  # What an application does to its strings while the front reads is too late.
  def test_a_response_that_waits_for_a_full_socket_is_what_it_was
    counted = F::Counters.new(0, 0, 0, 0, 0, "")
    ours, theirs = UNIXSocket.pair
    parts = [Random.new(2).bytes(400_000), "y" * 300_000, +"z"]
    expected = parts.join
    sending = Thread.new { N.respond(ours.fileno, nil, 1, 200, 0, counted, {}, parts) }
    Thread.pass until sending.stop?
    parts[0].setbyte(399_999, 0)
    parts[1].clear
    parts[2].replace("w" * 300_000)
    parts.clear
    GC.start
    GC.compact if GC.respond_to?(:compact)
    head = theirs.read(5)
    assert_equal expected, theirs.read(head.unpack1("N")).byteslice(-expected.bytesize, expected.bytesize)
    assert_equal :sent, sending.value
  ensure
    ours&.close
    theirs&.close
  end

  def test_a_slice_is_sent_behind_its_head
    ours, theirs = UNIXSocket.pair
    N.send_slice(ours.fileno, "head", "a body", 2, 4)
    N.send_slice(ours.fileno, "", "a body", 6, 0)
    assert_equal "headbody", theirs.read(8)
    [[-1, 1], [7, 0], [2, 5], [0, -1]].each { |at, size| assert_raises(ArgumentError) { N.send_slice(ours.fileno, "", "a body", at, size) } }
  ensure
    ours&.close
    theirs&.close
  end

  def test_receiving_waits_and_lets_other_threads_run
    ours, theirs = UNIXSocket.pair
    waiting = Thread.new { N.receive(ours.fileno, 100) }
    Thread.pass until waiting.stop?
    theirs.write("late")
    assert_equal "late", waiting.value
    theirs.write("x" * 50_000)
    assert_equal 50_000, N.receive(ours.fileno, 100_000).bytesize
  ensure
    ours&.close
    theirs&.close
  end

  # Strings that the native part holds while others run must neither move nor vanish.
  def test_under_stress_of_the_collector
    GC.stress = true
    whole = frame({ "HTTP_X_ODD" => "1" })
    env = N.env(whole, [].freeze)
    pairs = N.header_pairs({ "a" => "1" })
    GC.stress = false
    assert_equal ["1", F.fields("a", "1")], [env["HTTP_X_ODD"], pairs]
  ensure
    GC.stress = false
  end
end
