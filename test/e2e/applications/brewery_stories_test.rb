# What the brewery guide shows of Paceline, over HTTP: the stories with their measurements, notes that change a page for all who have it open, the admin section.
#
#   BREWERY_URL=http://127.0.0.1:3000 ruby test/e2e/applications/brewery_stories_test.rb
#
# Without BREWERY_URL every test of a page is skipped.
require "minitest/autorun"
require "json"
require "socket"
require_relative "../../../examples/brewery/app/models/comparison"
require_relative "../../../examples/brewery/app/models/listening_sockets"
require_relative "../support/visitor"

class BreweryStoriesTest < Minitest::Test
  URL = ENV["BREWERY_URL"]
  STORIES = %w[xml one_write provision pstore page_ahead].freeze
  # By bin/bench, in whose place test/with-server puts test/brewery/bench. The last two can't be measured by a page.
  BENCHED = %w[servers deploy proxy rails swap].freeze
  STREAM = "text/vnd.turbo-stream.html".freeze
  LINES = "application/x-ndjson".freeze

  def setup
    skip "BREWERY_URL is not set" unless URL
    @visitor = Visitor.new(URL)
  end

  def teardown
    @visitor&.finish
  end

  # stories

  def test_each_story_is_measured_and_its_figures_are_on_the_page_afterwards
    page = @visitor.get("/stories")
    assert_equal STORIES + BENCHED, page.body.scan(/<article class="story" id="(\w+)"/).flatten

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

  def test_a_story_of_the_bench_is_measured_by_it_in_one_short_round
    @visitor.get("/stories")
    lines = measure("deploy")

    assert_equal [0, 0.5, 1], lines.filter_map { |line| line["done"] }.first(3)
    assert_equal "deploy, made up: puma: 10", lines[1]["step"]
    card = lines.last["html"]
    ["puma <small>before</small>", "paceline <small>after</small>", "no figure: it ended", "4 times better", "unicorn (not installed)", "2 x made up &lt;b&gt; · 4 GB", "in requests/s: a longer bar is better",
     "1 round alone: a first impression; the machine was not idle before: a load of 7.5 for 2 processors"].each { |text| assert_includes card, text }
    assert_includes @visitor.get("/stories").body, card.strip
  end

  def test_each_story_of_the_bench_says_how_it_is_measured
    page = @visitor.get("/stories").body
    cards = page.scan(%r{<article class="story" id="(\w+)">(.*?)</article>}m).to_h
    BENCHED.each do |name|
      assert_includes cards[name], "<code>bin/bench story #{name}</code>"
      assert_equal !%w[rails swap].include?(name), cards[name].include?("Measure it now"), name
    end
    assert_equal "404", @visitor.post("/stories/swap/run", {}).code
  end

  def test_a_bench_that_fails_says_why
    lines = measure("proxy")
    assert_equal "bin/bench story proxy --quick: stand-in: proxy: not run: Redmine is not here", lines.last["error"]
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

  # notes

  def test_one_answer_changes_four_parts_of_the_page
    page = @visitor.get("/beers/21").body
    count = page[/id="note_count">(\d+)/, 1].to_i
    answer = note(21, "Hay, honey & <pepper>", "5")

    assert_equal "200", answer.code
    assert_equal STREAM, answer["content-type"][/\A[^;]+/]
    assert_equal [%w[prepend notes], %w[update note_count], %w[update note_average], %w[hide no_notes], %w[before note_form], %w[hide note_form]],
      answer.body.scan(/<turbo-stream action="(\w+)" target="(\w+)">/)
    assert_includes answer.body, "Hay, honey &amp; &lt;pepper&gt;"
    assert_includes answer.body, %(target="note_count"><template>#{count + 1}</template>)
    page = @visitor.get("/beers/21").body
    assert_includes page, %(id="note_count">#{count + 1}<)
    assert_equal answer.body[%r{note_average"><template>([\d.]+)</template>}, 1], page[/id="note_average">([\d.]+)/, 1]
  end

  def test_a_note_that_is_refused_brings_the_form_with_what_is_wrong
    @visitor.get("/beers/21")
    answer = note(21, "no", "5")

    assert_equal "422", answer.code
    assert_equal [%w[replace note_form]], answer.body.scan(/<turbo-stream action="(\w+)" target="(\w+)">/)
    assert_includes answer.body, "too short"
  end

  def test_who_has_the_page_open_gets_the_note_and_nothing_of_other_beers
    path = @visitor.get("/beers/22").body[/data-listen="([^"]+)"/, 1]
    words = ["First #{rand(1 << 60)}", "Second #{rand(1 << 60)}"]
    others = "Of another beer #{rand(1 << 60)}"
    heard = +""
    listen(path) do |part|
      if part.empty?
        note(23, others, "3")
        words.each { |line| note(22, line, "4") }
      end
      heard << part
      !heard.include?(words.last)
    end

    assert_operator heard.index(words.first), :<, heard.index(words.last)
    refute_includes heard, others
    refute_includes heard, "note_form", "others keep their form"

    # A connection that comes back says what it had last.
    id = heard.scan(/^id: (\d+)$/).flatten.first
    again = +""
    listen(path, "Last-Event-ID" => id) do |part|
      again << part
      !again.include?(words.last)
    end
    refute_includes again, words.first
  end

  # factories

  def test_factories_say_how_to_start_a_document_store_where_there_is_none
    skip "MONGO_SERVER is set" if ENV["MONGO_SERVER"]
    answer = @visitor.get("/factories")

    assert_equal "200", answer.code
    assert_includes answer.body, "bin/demo --mongo"
  end

  # admin

  CELLAR = %w[Ännchen cellar].freeze

  def test_admin_is_for_those_who_are_known
    assert_equal "401", @visitor.get("/admin").code
    assert_equal "401", admin("/admin/beers", login: %w[Mallory wrong]).code
    assert_equal "404", admin("/admin/users").code
    assert_equal "404", admin("/admin/beers/999999").code
    answer = admin("/admin")
    assert_equal "302", answer.code
    assert_equal "200", admin(URI(answer["location"]).path).code
  end

  def test_a_list_is_searched_filtered_and_sorted
    styles = rows("/admin/beers?sort=style").map { |row| row[1] }
    assert_equal 25, styles.size
    assert_equal styles.sort, styles
    assert_equal rows("/admin/beers?sort=-price").map { |row| row[4][/[\d.]+/].to_f }.sort.reverse, rows("/admin/beers?sort=-price").map { |row| row[4][/[\d.]+/].to_f }
    breweries = rows("/admin/beers?sort=brewery").map { |row| row[2] }
    assert_equal breweries.sort, breweries, "by the brewery's name, not by its number"

    stouts = rows("/admin/beers?filter[style]=Stout")
    assert_equal ["Stout"], stouts.map { |row| row[1] }.uniq
    found = rows("/admin/beers?q=#{URI.encode_www_form_component(stouts[0][0])}")
    assert_includes found.map(&:first), stouts[0][0]
    assert_empty rows("/admin/beers?q=100%25_no_such")
    # What no section declares is no way to sort or filter.
    assert_equal rows("/admin/beers"), rows("/admin/beers?sort=about&filter[about]=x&filter=1&page=1")
  end

  def test_a_record_is_made_changed_and_removed_and_its_history_says_by_whom
    admin("/admin/beers/new")
    refused = change("/admin/beers", "record[name]" => "", "record[brewery_id]" => "1")
    assert_equal "422", refused.code
    assert_includes refused.body, "can&#39;t be blank"

    fields = { "name" => "Zwickel #{rand(1 << 40)}", "brewery_id" => "1", "style" => "Kellerbier", "abv" => "4.9", "ibu" => "22", "ebc" => "9", "price" => "3.00", "about" => "From the admin page" }
    made = change("/admin/beers", fields.to_h { |name, value| ["record[#{name}]", value] }.merge("record[id]" => "77777"))
    assert_equal "302", made.code
    path = URI(made["location"]).path
    refute_includes path, "77777", "what is no field is not written"
    page = admin(path).body
    assert_includes page, fields["name"]

    assert_equal "302", change(path, "_method" => "patch", "record[ibu]" => "23").code
    assert_equal "302", change("#{path}/actions/10-cheaper", {}).code
    page = admin(path).body
    assert_includes page, "€ 2.70"
    history = page.scan(%r{<tr>\s*<td>.*?</tr>}m)
    assert_equal 3, history.size, "created, changed, made cheaper"
    assert(history.all? { |row| row.include?(CELLAR[0]) })
    assert_includes history[1], "IBU: 22 → 23"

    assert_equal "404", change("#{path}/actions/destroy", {}).code, "no action of this name is declared"
    assert_equal "302", change(path, "_method" => "delete").code
    assert_equal "404", admin(path).code
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

  def note(beer, words, score)
    fields = { "authenticity_token" => @visitor.token, "note[author]" => "Greta", "note[score]" => score, "note[body]" => words }
    @visitor.post_body("/beers/#{beer}/notes", URI.encode_www_form(fields), "Accept" => "#{STREAM}, text/html", "Content-Type" => "application/x-www-form-urlencoded")
  end

  # Reads events for as long as the block wants more. It gets an empty part when the stream is open.
  def listen(path, headers = {})
    Net::HTTP.start(URI(URL).host, URI(URL).port, read_timeout: 20) do |http|
      catch(:enough) do
        http.request_get(path.gsub("&amp;", "&"), headers) do |answer|
          assert_equal "text/event-stream", answer["content-type"][/\A[^;]+/]
          yield("") || throw(:enough)
          answer.read_body { |part| yield(part.force_encoding(Encoding::UTF_8)) || throw(:enough) }
        end
      end
    end
  end

  def admin(path, login: CELLAR)
    @visitor.get(path, "Authorization" => "Basic #{[login.join(":")].pack("m0")}")
  end

  def change(path, fields)
    @visitor.post(path, fields, login: CELLAR)
  end

  # The cells of a list, as text.
  def rows(path)
    body = admin(path).body
    body[%r{<tbody>.*?</tbody>}m].scan(%r{<tr>.*?</tr>}m).map { |row| row.scan(%r{<td>(.*?)</td>}m).flatten.map { |cell| Visitor.unescape(cell.gsub(/<[^>]+>/, "")).strip } }
  end
end

# What the stories' cards say of two figures, and how they find the server that they run under. No server is asked.
class BreweryStoryPartsTest < Minitest::Test
  def test_two_ways_compare_as_better_worse_or_no_difference
    assert_equal ["4 times better", "2.5 times worse", "14 times better"], [Comparison.text(4.0, [3.0, 5.0]), Comparison.text(0.4, [0.3, 0.5]), Comparison.text(13.6, nil)]
    assert_equal ["no difference", "no difference", "1.2 times better"], [Comparison.text(1.5, [0.9, 1.8]), Comparison.text(0.95, [0.95, 0.95]), Comparison.text(1.2, [1.2, 1.2])]
    assert_equal ["1.2 times as fast", "1.25 times as slow"], [1.2, 0.8].map { |ratio| Comparison.text(ratio, nil, better: "times as fast", worse: "times as slow") }
    assert_equal [nil, nil], [Comparison.text(nil, nil), Comparison.text(0.0, [0.0, 0.0])]
  end

  # As a worker that its server has forked: the socket is the process's above it, of whatever port.
  def test_the_server_above_a_worker_is_found_by_its_socket
    own, all = TCPServer.new("127.0.0.1", 0), TCPServer.new("::", 0)
    reading, writing = IO.pipe
    worker = fork do
      [own, all, reading].each(&:close)
      writing.write(JSON.generate(ListeningSockets.addresses))
      exit!(0)
    end
    writing.close
    found = JSON.parse(reading.read)
    assert_includes found, ["127.0.0.1", own.local_address.ip_port]
    assert_includes found, ["127.0.0.1", all.local_address.ip_port]
  ensure
    Process.wait(worker)
    [own, all, reading].each(&:close)
  end
end
