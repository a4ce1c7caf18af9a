# Answers to outbound calls that are kept: for whom, how long, and when they are asked about.
require_relative "../support/egress_scenario"

class EgressCacheTest < Minitest::Test
  include EgressScenario

  CACHE = "egress_cache = \"4MB\"".freeze

  def kept(response) = told(response)["cache"]

  # Answers with these fields and a body that counts.
  def counting(*fields)
    number = 0
    answering { |*| "HTTP/1.1 200 OK\r\n#{fields.map { |field| "#{field}\r\n" }.join}Content-Length: 1\r\n\r\n#{number += 1}" }
  end

  def test_nothing_is_kept_unless_it_is_asked_for
    front
    to = counting("Cache-Control: max-age=60")
    assert_equal %w[1 2], Array.new(2) { call("#{to.url}/").body }
  end

  def test_what_may_be_kept_for_one_user_is
    front(CACHE)
    to = counting("Cache-Control: private, max-age=60", "X-Own: 1")
    assert_equal "1", call("#{to.url}/a?b").body
    answer = caller_.call("#{to.url}/a?b")
    assert_equal ["1", %("hit"), "1"], [answer.body, kept(answer), answer["x-own"]]
    assert_operator Integer(answer["age"]), :<=, 30
    assert_equal ["", %("hit")], [(head = call("#{to.url}/a?b", method: "HEAD")).body, kept(head)]
    # What else could be the same, and is not.
    others = [[{ "Authorization" => "Bearer x" }, nil], [{ "Cookie" => "a=b" }, nil], [{ "Cache-Control" => "no-cache" }, nil], [{}, "cache=?0"], [{}, "http=\"1.1\""]]
    others.each_with_index { |(fields, wanted), index| assert_equal (index + 2).to_s, call("#{to.url}/a?b", wanted, fields: fields).body }
    assert_equal "2", call("#{to.url}/a?b", fields: { "Authorization" => "Bearer x" }).body
    # A change drops all of them.
    call("#{to.url}/a?b", method: "POST", body: "x")
    assert_equal %w[8 9], [call("#{to.url}/a?b"), call("#{to.url}/a?b", fields: { "Authorization" => "Bearer x" })].map(&:body)
  end

  def test_what_may_not_be_kept_is_not
    front(CACHE)
    ["Cache-Control: no-store, max-age=60", "Cache-Control: s-maxage=60", "X: y", "Set-Cookie: session=1; HttpOnly\r\nCache-Control: max-age=60", "Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT"].each do |fields|
      to = counting(*fields)
      assert_equal %w[1 2], Array.new(2) { call("#{to.url}/").body }, fields
    end
  end

  def test_what_varies_is_told_apart
    front(CACHE)
    to = counting("Cache-Control: max-age=60", "Vary: Accept-Language")
    asked = %w[de en de en fr].map { |language| call("#{to.url}/", fields: { "Accept-Language" => language }).body }
    assert_equal %w[1 2 1 2 3], asked
  end

  def test_what_is_stale_is_asked_about
    front(CACHE)
    down = false
    to = answering do |head, _|
      if down then "HTTP/1.1 500 Down\r\nContent-Length: 0\r\n\r\n"
      elsif head["if-none-match"] == "\"1\"" then "HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\nX-New: 1\r\n\r\n"
      else OK.sub("\r\n", "\r\nETag: \"1\"\r\nCache-Control: max-age=0, stale-if-error=60\r\n")
      end
    end
    assert_equal "ok", call("#{to.url}/").body
    answer = call("#{to.url}/")
    assert_equal ["ok", %("revalidated"), "1"], [answer.body, kept(answer), answer["x-new"]]
    down = true
    answer = call("#{to.url}/")
    assert_equal [200, "ok", %("stale")], [answer.status, answer.body, kept(answer)]
    assert_equal 500, call("#{to.url}/other").status
    # Conditions of the caller's own are his affair.
    down = false
    assert_equal 304, call("#{to.url}/", fields: { "If-None-Match" => "\"1\"" }).status
  end

  def test_calls_for_the_same_wait_for_one_answer
    front(CACHE)
    go = Queue.new
    to = answering { |*| go.pop && OK.sub("\r\n", "\r\nCache-Control: max-age=60\r\n") }
    callers = Array.new(8) { caller_ }
    callers.each { |one| one.ask("#{to.url}/") }
    take(@asked)
    refute callers.last.io.wait_readable(0.2)
    go << true
    assert_equal ["ok"], callers.map { |one| one.response.body }.uniq
    assert_empty @asked
    # What was not kept once is asked for side by side.
    to = answering { |*| go.pop && OK }
    go << true
    call("#{to.url}/live")
    take(@asked)
    callers.each { |one| one.ask("#{to.url}/live") }
    8.times { take(@asked) }
    8.times { go << true }
    assert_equal ["ok"], callers.map { |one| one.response.body }.uniq
  end
end
