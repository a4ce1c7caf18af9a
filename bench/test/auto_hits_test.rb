# frozen_string_literal: true

# What `bin/bench auto-hits` makes of answers: what three caches would have had, and which of that was wrong.
require "minitest/autorun"
require_relative "../auto_hits/tables"
require_relative "../auto_hits/trace"
require_relative "../../test/auto_cache/crawl/person"

class AutoHitsTest < Minitest::Test
  # Requests come a second apart, and nobody writes by chance.
  EACH_SECOND = Class.new { def rand = 1 - Math.exp(-1) }.new
  Answer = Struct.new(:code, :body, :timing) do
    def [](name) = { "server-timing" => timing }[name]
  end

  # Somebody who is shown what the automatic cache has, and else what the application says.
  class Guest
    attr_accessor :kept, :own

    def get(_path, head = {}) = head.empty? && kept || own
    def hit?(answer) = answer.equal?(kept)
    def plain(answer) = answer.body
  end

  # A visitor of one page.
  class Crowd
    attr_reader :guest

    def initialize(guest) = @guest = guest
    def visit = [guest, "/beers/1?page=2"]
    def audience(_) = "guests"
  end

  def setup
    @guest = Guest.new
    @trace = Bench::AutoHitsTrace.new(EACH_SECOND, rate: 1.0, writes: 0, ttl: 2.5)
  end

  def page(body, code: "200") = Answer.new(code, body, 'read;desc="beers breweries", written;desc=""')

  # Answers each with what the application says now, and what the automatic cache has (nil: none).
  def ask(own, kept = nil)
    @guest.own = own
    @guest.kept = kept
    @trace.run(Crowd.new(@guest), 1)
  end

  def write(table) = @trace.heard(nil, Answer.new("302", "", "read;desc=\"\", written;desc=\"#{table}\""))

  # {cache => [requests, hits, wrong]}
  def totals = Bench::AutoHitsTrace::CACHES.to_h { |cache| [cache, @trace.total(cache).to_a] }

  def test_each_cache_keeps_the_page_in_its_way
    old, new = page("old"), page("new")
    ask(old)
    ask(old, old)
    write("sessions")
    ask(old, old)
    write("beers")
    ask(new)
    ask(new, new)
    # By time it was rendered again when three seconds had passed.
    assert_equal({ automatic: [5, 3, 0], tables: [5, 3, 0], ttl: [5, 3, 0] }, totals)
    assert_equal ["GET /beers/*"], @trace.pages.keys
    write("sessions")
    ask(page("of the session"))
    assert_equal({ automatic: [6, 3, 0], tables: [6, 4, 1], ttl: [6, 4, 1] }, totals)
    ask(new, old)
    assert_equal [7, 4, 1], totals[:automatic], "another page was shown"
  end

  def test_answers_that_no_cache_keeps_do_not_count
    ask(page("", code: "404"))
    assert_equal [0, 0, 0], totals[:automatic]
  end

  def test_pages_of_a_session_are_compared_without_what_changes_each_time
    page = ->(token, text: "Ale", kept: "private, no-store", code: "200") { Crawl::Page.new(code, { "cache-control" => kept }, %(<meta name="csrf-token" content="#{token}">#{text}).b) }
    assert_nil page["a"].difference(page["bcd", kept: "max-age=0, private, must-revalidate"])
    assert_equal 'cache-control "private", and "public" of the application', page["a"].difference(page["a", kept: "public"])
    assert_equal "status 200, and 404 of the application", page["a"].difference(page["a", code: "404"])
    assert_match(/\Ashown was ".*Ale", the application's is ".*Porter"\z/, page["a"].difference(page["b", text: "Porter"]))
    assert_nil page["a"].difference(page["a", kept: "public"], %w[content-type])
  end

  def test_tables_are_found_in_statements
    {
      'SELECT "beers".* FROM "beers" INNER JOIN "breweries" ON 1' => [%w[beers breweries], []],
      "INSERT INTO notes (a) VALUES (1)" => [[], ["notes"]],
      'UPDATE "beers" SET a = 1' => [[], ["beers"]],
      'DELETE FROM "beers"' => [[], ["beers"]],
    }.each do |sql, (read, written)|
      noted = { read: [], written: [] }
      BenchTables.add(noted, sql)
      assert_equal [read, written], noted.values, sql
    end
  end
end
