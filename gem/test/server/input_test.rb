# frozen_string_literal: true

require "helper"

# Request bodies: in the frame, in a file, and streaming in; and the env that goes with them.
class InputTest < Paceline::Test
  def setup
    @front, @worker, @rack = Paceline::Test.shared(false)
  end

  def channel = @worker.channels[1]

  def start(path, env = {}, **options)
    channel.send(F::REQUEST, FakeFront.request({ "PATH_INFO" => path }.merge(env), **options))
  end

  def answer = FakeFront.answer(channel)

  def body(*parts, cut: false)
    parts.each { |part| channel.send(F::BODY, part) }
    channel.send(F::BODY_END, cut ? "\1" : "\0")
  end

  def test_inline
    start("/read", body: "a\0\xff")
    assert_equal "a\0\xff".b, answer.body
  end

  def test_inline_of_a_megabyte
    start("/read", body: "z" * 1_000_000)
    assert_equal 1_000_000, answer.body.bytesize
  end

  def test_spooled
    in_tmpdir("body" => "from a file") do |dir|
      start("/read", { "paceline.input" => File.join(dir, "body") }, flags: F::SPOOLED)
      assert_equal "from a file", answer.body
      assert_path_exists File.join(dir, "body")
    end
  end

  def test_missing_spool_file_is_an_error_of_this_request_only
    start("/read", { "paceline.input" => File.join(__dir__, "no/body") }, flags: F::SPOOLED)
    assert_equal "Errno::ENOENT", answer.error["class"]
    start("/array")
    assert_equal 200, answer.status
  end

  def test_streamed
    start("/read", flags: F::STREAMED)
    body("one ", "two")
    assert_equal "one two", answer.body
  end

  def test_streamed_in_parts
    start("/read-parts", flags: F::STREAMED)
    body("ab", "line", " on\nxyz", "rest")
    assert_equal "ab|line on\n|xyz|rest|nil", answer.body
  end

  def test_streamed_rewinds_in_rack_2
    return if @rack >= 3
    start("/read-twice", flags: F::STREAMED)
    body(*Array.new(50) { "x" * 4000 })
    assert_equal "same 200000", answer.body
  end

  def test_streamed_to_a_callable_body
    start("/callable", flags: F::STREAMED)
    body("in ", "pieces")
    assert_equal "got: in pieces", answer.body
  end

  def test_cut_off_body_raises_an_io_error
    start("/read-cut", flags: F::STREAMED)
    body("half", cut: true)
    assert_equal "Paceline::BodyCutOff", answer.body
  end

  def test_leftovers_do_not_leak_into_the_next_request
    start("/read-none", flags: F::STREAMED)
    assert_equal "ignored", answer.body
    body("REQUEST", "as if")
    start("/array")
    assert_equal "onetwo", answer.body
  end

  def test_chunks_may_go_out_while_the_body_comes_in
    start("/each", flags: F::STREAMED)
    body("a", "b")
    assert_equal "ab", answer.body
    start("/array")
    assert_equal "onetwo", answer.body
  end

  def test_env
    start("/env", { "HTTP_X_A" => "", "QUERY_STRING" => "q=\xff" })
    lines = answer.body.split("\n")
    assert_includes lines, 'HTTP_X_A=""'
    assert_includes lines, 'QUERY_STRING="q=\xFF"'
    assert_includes lines, "rack.hijack?=true"
    assert_empty(lines.grep(/\Apuma/))
    rack2 = ["rack.multithread=false", "rack.multiprocess=true", "rack.run_once=false", "rack.version=[1, 6]"]
    assert_equal @rack < 3, (rack2 - lines).empty?
    start("/env-encodings", { "QUERY_STRING" => "q=\xff" })
    assert_equal ["[#<Encoding:ASCII-8BIT>]", "[#<Encoding:BINARY (ASCII-8BIT)>]"].include?(answer.body), true
  end

  def test_somebody_who_has_signed_in
    told = ["kerberos", "b\xC3\xB6b", "staff", "a, b", "\xFF"].join("\x1F")
    start("/env", { "REMOTE_USER" => "b\xC3\xB6b", "AUTH_TYPE" => "Negotiate", "paceline.user" => told })
    user = { name: "b\u00f6b", groups: ["staff", "a, b", "\xFF"], mechanism: "kerberos" }
    assert_includes answer.body.force_encoding(Encoding::UTF_8), "paceline.user=#{user.inspect}"
    start("/env")
    refute_match(/paceline.user|REMOTE_USER|AUTH_TYPE/, answer.body)
  end

  def test_no_hijack_where_the_client_can_not
    start("/env", { "paceline.hijack" => "" })
    refute_match(/^rack.hijack/, answer.body)
  end
end
