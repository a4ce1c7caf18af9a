# What the brewery guide shows of Paceline, over HTTP: the stories with their measurements.
#
#   BREWERY_URL=http://127.0.0.1:3000 ruby test/e2e/applications/brewery_stories_test.rb
#
# Without BREWERY_URL every test is skipped.
require "minitest/autorun"
require "json"
require_relative "../support/visitor"

class BreweryStoriesTest < Minitest::Test
  URL = ENV["BREWERY_URL"]
  STORIES = %w[xml one_write provision pstore page_ahead].freeze
  LINES = "application/x-ndjson".freeze

  def setup
    skip "BREWERY_URL is not set" unless URL
    @visitor = Visitor.new(URL)
  end

  def teardown
    @visitor&.finish
  end

  def test_each_story_is_measured_and_its_figures_are_on_the_page_afterwards
    page = @visitor.get("/stories")
    assert_equal STORIES, page.body.scan(/<article class="story" id="(\w+)"/).flatten

    STORIES.each do |name|
      lines = measure(name)
      assert_nil lines.last["error"], name
      assert_equal 1, lines.last["done"], name
      assert_operator lines.size, :>, 3, "#{name}: progress comes before the figures"
      assert_equal lines.map { |line| line["done"] }.sort, lines.map { |line| line["done"] }, name
      figures = lines.last["html"].scan(/([\d.,]+) ms/).flatten
      assert_operator figures.size, :>=, 2, name
      assert_includes @visitor.get("/stories").body, lines.last["html"].strip, name
    end
  end

  def test_a_page_without_javascript_measures_too
    @visitor.get("/stories")
    answer = @visitor.post("/stories/pstore/run", {})

    assert_equal "302", answer.code
    assert_equal "#{URL}/stories#pstore", answer["location"]
  end

  def test_a_second_measurement_at_the_same_time_is_refused
    @visitor.get("/stories")
    request = Net::HTTP::Post.new("/stories/provision/run", "Accept" => LINES, "Accept-Encoding" => "identity", "Cookie" => @visitor.cookies.map { |pair| pair.join("=") }.join("; "))
    request.set_form_data("authenticity_token" => @visitor.token)
    Net::HTTP.start(URI(URL).host, URI(URL).port) do |http|
      http.request(request) do |answer|
        asked = nil
        answer.read_body { asked ||= @visitor.post("/stories/pstore/run", {}) }
        assert_equal "409", asked.code
        assert_includes asked.body, "Another measurement"
      end
    end
  end

  def test_an_unknown_story_and_a_measurement_without_a_token
    @visitor.get("/stories")

    assert_equal "404", @visitor.post("/stories/kernel/run", {}).code
    assert_equal "422", @visitor.post("/stories/xml/run", {}, token: nil).code
  end

  private

  # All lines of a measurement.
  def measure(name)
    @visitor.get("/stories")
    answer = @visitor.post_body("/stories/#{name}/run", URI.encode_www_form("authenticity_token" => @visitor.token),
      "Accept" => LINES, "Content-Type" => "application/x-www-form-urlencoded")
    assert_equal "200", answer.code, name
    answer.body.force_encoding(Encoding::UTF_8).lines.map { |line| JSON.parse(line) }
  end
end
