# The brewery guide over HTTP: pages, a form with its token and session, an upload, a stream, Action Cable.
#
#   BREWERY_URL=http://127.0.0.1:3000 ruby test/e2e/applications/brewery_test.rb
#
# Without BREWERY_URL every test is skipped.
require "minitest/autorun"
require "digest"
require "json"
require "socket"
require "timeout"
require_relative "../support/visitor"
require_relative "../support/web_socket"

class BreweryTest < Minitest::Test
  URL = ENV["BREWERY_URL"]
  PNG = "\x89PNG\r\n\x1a\n".b

  def setup
    skip "BREWERY_URL is not set" unless URL
    @visitor = Visitor.new(URL)
  end

  def teardown
    @visitor&.finish
  end

  def test_every_page_is_there
    %w[/ /breweries /breweries/1 /breweries?region=Kent /beers /beers?page=3 /beers/1 /search?q=pils /slow?ms=1 /provision /tasting-room /ticker /up].each do |path|
      answer = @visitor.get(path)
      assert_equal "200", answer.code, path
      assert_equal "text/html", answer["content-type"][/\A[^;]+/], path
    end
  end

  def test_the_feed_is_whole
    answer = @visitor.get("/feed")

    assert_equal "200", answer.code
    assert_includes answer["content-type"], "xml"
    assert_equal 200, answer.body.scan("<entry>").size
    assert answer.body.end_with?("</feed>\n")
  end

  def test_an_unknown_beer_and_an_unknown_path_are_404
    assert_equal "404", @visitor.get("/beers/999999").code
    assert_equal "404", @visitor.get("/no/such/door").code
  end

  def test_what_the_application_raises_is_500
    assert_equal "500", @visitor.get("/oops").code
    assert_equal "200", @visitor.get("/up").code
  end

  def test_a_note_is_refused_then_kept_and_the_author_remembered
    words = "Hay and honey ü #{rand(1 << 60)}"
    @visitor.get("/beers/2")

    refused = @visitor.post("/beers/2/notes", { "note[author]" => "Greta", "note[score]" => "9", "note[body]" => "no" })
    assert_equal "422", refused.code
    assert_includes refused.body, "too short"

    kept = @visitor.post("/beers/2/notes", { "note[author]" => "Greta", "note[score]" => "5", "note[body]" => words })
    assert_equal "302", kept.code
    page = @visitor.follow(kept)
    assert_includes page.body, words
    assert_includes page.body, "Thank you, Greta"
    assert_includes page.body, 'value="Greta"'
    refute_includes @visitor.get("/beers/2").body, "Thank you, Greta", "a flash is shown once"
  end

  def test_a_price_is_changed_by_somebody_who_is_known_and_the_book_says_who
    name = "Ännchen #{rand(1 << 60)}"
    price = format("%.2f", 5 + rand(90_000) / 100.0)
    @visitor.get("/beers/6")
    fields = { "_method" => "patch", "beer[price]" => price }

    assert_equal "401", @visitor.post("/beers/6/price", fields).code
    assert_equal "401", @visitor.post("/beers/6/price", fields, login: [name, "wrong"]).code
    @visitor.get("/beers/6")
    changed = @visitor.post("/beers/6/price", fields, login: [name, "cellar"])
    assert_equal "302", changed.code
    assert_includes @visitor.follow(changed).body, "€ #{price}"
    # The same price again is no change.
    @visitor.post("/beers/6/price", fields, login: [name, "cellar"])

    rows = @visitor.get("/audit").body.scan(%r{<tr>.*?</tr>}m).select { |row| row.include?(name) }
    assert_equal 1, rows.size
    assert_includes rows[0], "€ #{price}"
    assert_includes rows[0], changed["x-request-id"]
    refute_includes @visitor.get("/audit")["cache-control"], "public"
  end

  def test_a_form_without_its_token_is_refused
    answer = @visitor.post("/beers/2/notes", { "note[author]" => "Mallory" }, token: nil)

    assert_equal "422", answer.code
  end

  def test_a_label_comes_back_byte_for_byte
    [40_000, 3_000_000].each do |size|
      bytes = PNG + Random.new(size).bytes(size)
      @visitor.get("/beers/4")
      stored = @visitor.post_multipart("/beers/4/label", {}, files: { "picture" => ["label.png", bytes] })
      assert_equal "302", stored.code

      back = @visitor.get("/beers/4/label")
      assert_equal "200", back.code
      assert_equal "image/png", back["content-type"]
      assert_equal Digest::SHA256.hexdigest(bytes), Digest::SHA256.hexdigest(back.body)
    end
  end

  def test_a_stream_comes_as_it_is_made
    times = []
    Net::HTTP.start(URI(URL).host, URI(URL).port) do |http|
      http.request_get("/stream?n=4&ms=1000") do |answer|
        assert_equal "text/event-stream", answer["content-type"][/\A[^;]+/]
        answer.read_body { |part| times << Process.clock_gettime(Process::CLOCK_MONOTONIC) if part.include?("data:") }
      end
    end

    assert_operator times.size, :>=, 4
    assert_operator times[2] - times[0], :>, 0.3, "events were kept back"
  end

  def test_action_cable_echoes
    WebSocket.open("#{URL}/cable", protocols: ["actioncable-v1-json"], origin: URL) do |socket|
      identifier = JSON.generate("channel" => "TastingRoomChannel")
      assert_equal "welcome", receive(socket)["type"]
      socket.write(JSON.generate("command" => "subscribe", "identifier" => identifier))
      heard = Array.new(2) { receive(socket) }
      assert_includes heard.map { |message| message["type"] }, "confirm_subscription"

      ["short", "ü" * 70, "long " * 14_000].each do |words|
        socket.write(JSON.generate("command" => "message", "identifier" => identifier, "data" => JSON.generate("action" => "echo", "words" => words)))
        assert_equal words, receive(socket)["message"]["data"]["words"]
      end

      socket.write(JSON.generate("command" => "message", "identifier" => identifier, "data" => JSON.generate("action" => "say", "words" => "cheers")))
      assert_equal "cheers", receive(socket)["message"]["words"]
    end
  end

  # They are more than a worker has threads: each leaves the count (ActionController::Live), or gives its thread back (Action Cable).
  def test_pages_come_beside_open_streams_and_cables
    opened = Array.new(20) do
      TCPSocket.new(URI(URL).host, URI(URL).port).tap { |socket| socket.write("GET /stream?n=1000&ms=500 HTTP/1.1\r\nHost: localhost\r\n\r\n") }
    end
    Timeout.timeout(60) { opened.each { |socket| nil until socket.gets.start_with?("data:") } }
    cables = Array.new(5) { WebSocket.new("#{URL}/cable", protocols: ["actioncable-v1-json"], origin: URL) }
    cables.each { |socket| assert_equal "welcome", receive(socket)["type"] }
    assert_equal "200", @visitor.get("/beers").code
  ensure
    [*opened, *cables].each(&:close)
  end

  private

  def receive(socket)
    loop do
      message = JSON.parse(socket.read)
      return message unless message["type"] == "ping"
    end
  end
end
