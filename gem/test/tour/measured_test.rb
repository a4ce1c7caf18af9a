# frozen_string_literal: true

require "helper"
require "paceline/tour/served"
require "paceline/tour/measured"
require "paceline/tour/cached_page"

# The figures that the tour explains.
class TourMeasuredTest < Minitest::Test
  RESULT = {
    "answers" => 40, "failures" => { "timeout" => 2 }, "statuses" => { "200" => 37, "500" => 3 },
    "percentiles" => [{ "percent" => 50.0, "ms" => 12.5 }, { "percent" => 99.0, "ms" => 40 }],
    "parts" => [{ "percent" => 50.0, "ms" => 12.5, "parts" => { "front" => 1.0, "sql" => 9.0, "app" => 2.0 } }]
  }.freeze

  def test_median_failures_and_the_largest_part
    measured = Paceline::Tour::Measured.new(RESULT)
    assert_equal [12.5, 40, 5, ["sql", 0.75]], [measured.median, measured.answers, measured.failed, measured.largest_part]
    assert_nil Paceline::Tour::Measured.new(RESULT.merge("parts" => [])).largest_part
  end

  def test_times
    assert_equal ["59 us", "1.2 ms", "75 ms"], [0.0594, 1.24, 75.3].map { |millis| Paceline::Tour::Measured.time(millis) }
  end

  # Answers with the given header fields.
  Answers = Struct.new(:fields) do
    def get(*, **)
      response = Net::HTTPOK.new("1.1", "200", "OK")
      fields.each { |name, value| Array(value).each { |one| response.add_field(name, one) } }
      response
    end
  end

  def page(fields)
    Paceline::Tour::CachedPage.new(Answers.new(fields), "/beers?page=2").tap(&:visit)
  end

  def test_a_page_with_cookies_gets_a_copy_for_each_visitor
    page = page("set-cookie" => ["_shop=abc; path=/", "lang=de"], "cache-status" => "paceline; hit; ttl=9")
    assert_predicate page, :visitors?
    assert_predicate page, :hit?
    assert_equal %([[cache]]\npath = "/beers"\nttl = "10s"\ncookies = ["_shop","lang"]\nset_cookie = "strip"\n), page.settings
  end

  def test_why_a_page_is_not_kept
    assert_equal %([[cache]]\npath = "/beers"\nttl = "10s"\n), page({}).settings
    assert_equal "no-store", page("cache-status" => "paceline; fwd=uri-miss; detail=no-store").reason
    assert_equal "uri-miss", page("cache-status" => "paceline; fwd=uri-miss").reason
    assert_equal "the answer was 200", page({}).reason
  end
end
