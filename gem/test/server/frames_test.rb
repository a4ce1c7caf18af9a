# frozen_string_literal: true

require "helper"
require "paceline/server/headers"

# The bytes of frames, headers, and the search for the front's program, without any process.
class FramesTest < Paceline::Test
  def test_fields
    assert_equal "a\0\0b\0".b, F.fields("a", "", :b)
    assert_equal ["a", "", "b"], F.parse_fields("a\0\0b\0")
    assert_equal [], F.parse_fields("")
    assert_equal "ab\0".b, F.fields("a\0b")
    assert_raises(Paceline::Server::ProtocolError) { F.parse_fields("a") }
  end

  def test_pairs
    assert_equal({ "a" => "1", "b" => "" }, F.parse_pairs("a\x001\0b\0\0"))
    assert_raises(Paceline::Server::ProtocolError) { F.parse_pairs("a\0") }
  end

  def test_env_of_any_size
    [0, 1, 9, 256, 257, 5000].each do |count|
      pairs = Array.new(count) { |n| ["HTTP_X_#{n}", n.to_s] }.to_h
      assert_equal pairs, F.parse_env(F.pairs(pairs))
    end
  end

  def test_env_strings_are_binary_and_the_apps_own
    env = F.parse_env(F.fields("PATH_INFO", "/\u00fc"))
    assert_equal Encoding::BINARY, env["PATH_INFO"].encoding
    refute_predicate env["PATH_INFO"], :frozen?
  end

  def test_headers
    headers = Paceline::Server::Headers.new
    assert_equal F.fields("a", "1", "b", "x", "b", "y", "c", "3"),
                 headers.encode({ "a" => 1, "b" => "x\n\ny", :c => %w[3], "d" => nil, "rack.x" => 5 })
    assert_equal "", headers.encode(nil)
    hijack = -> {}
    headers.encode([["rack.hijack", hijack]])
    assert_same hijack, headers.hijack
    headers.encode({})
    assert_nil headers.hijack
  end

  def test_refused_headers
    headers = Paceline::Server::Headers.new
    ["", "a b", "a:", "a\n", "\u00fc", "a\0"].each do |name|
      2.times { assert_raises(Paceline::InvalidResponse, name.inspect) { headers.encode({ name => "1" }) } }
    end
    ["1\r\n2", "\0", "\r"].each do |value|
      assert_raises(Paceline::InvalidResponse, value.inspect) { headers.encode({ "a" => value }) }
      assert_raises(Paceline::InvalidResponse, value.inspect) { headers.encode({ "a" => [value] }) }
    end
  end
end
