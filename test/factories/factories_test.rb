# The brewery's factories in a document store, over HTTP: test/factories/run starts both. Without BREWERY_URL every test is skipped.
require "minitest/autorun"
require_relative "../e2e/support/visitor"

class FactoriesTest < Minitest::Test
  URL = ENV["BREWERY_URL"]

  def setup
    skip "BREWERY_URL is not set" unless URL
    @visitor = Visitor.new(URL)
    @visitor.get("/factories")
    @visitor.post("/factories/clear", { "_method" => "delete" })
    insert "Amber Works", "Ottersgrund", "wood", 3
    insert "Bell Foundry", "Ottersgrund", "gas", 1
    insert "Copper & Sons", "Tranes", "gas", 2
  end

  def teardown
    @visitor&.finish
  end

  def test_documents_are_found_by_a_field_within_a_field_and_by_one_of_several_values
    assert_equal ["Amber Works", "Bell Foundry", "Copper & Sons"], names
    assert_equal ["Bell Foundry", "Copper & Sons"], names("energy=gas")
    assert_equal ["Amber Works", "Bell Foundry"], names("cities[]=Ottersgrund&cities[]=Nowhere")
    assert_equal ["Bell Foundry"], names("energy=gas&cities[]=Ottersgrund")
    # No operator of the store comes from a visitor.
    assert_equal 3, names("energy[$ne]=gas&cities[][$gt]=").size
  end

  def test_one_field_is_set_and_the_others_stay
    patched = @visitor.post("/factories/#{id("Amber Works")}", { "_method" => "patch", "kettles" => "9" })
    assert_includes @visitor.follow(patched).body, "&quot;$set&quot;"

    assert_equal ["Amber Works", "Ottersgrund", "wood", "9", "kettles, taps"], rows.find { |row| row[0] == "Amber Works" }.first(5)
  end

  def test_one_is_removed_and_then_all
    gone = id("Bell Foundry")
    @visitor.post("/factories/#{gone}", { "_method" => "delete" })
    assert_equal ["Amber Works", "Copper & Sons"], names
    again = @visitor.post("/factories/#{gone}", { "_method" => "delete" })
    assert_includes @visitor.follow(again).body, "no such factory"
    assert_includes @visitor.follow(@visitor.post("/factories/no-id", { "_method" => "delete" })).body, "no such factory"

    @visitor.post("/factories/clear", { "_method" => "delete" })
    assert_empty names
    assert_equal "0", page[%r{<b data-count>(\d+)</b>}, 1]
  end

  def test_count_and_names_by_city
    assert_equal "3", page[%r{<b data-count>(\d+)</b>}, 1]
    cities = page[%r{<dl data-by-city>.*?</dl>}m].scan(%r{<dt><b>(.*?)</b></dt><dd>(.*?)</dd>}m)
    assert_equal [["Ottersgrund", "Amber Works, Bell Foundry"], ["Tranes", "Copper &amp; Sons"]], cities

    @visitor.post("/factories/fill", {})
    assert_equal "15", page[%r{<b data-count>(\d+)</b>}, 1]
  end

  def test_what_is_incomplete_is_refused
    refused = @visitor.post("/factories", { "name" => " ", "city" => "Tranes", "energy" => "gas" })
    assert_includes @visitor.follow(refused).body, "A factory has a name"
    @visitor.post("/factories", { "name" => "X", "city" => "Tranes", "energy" => "coal" })
    assert_equal 3, names.size
  end

  private

  def insert(name, city, energy, kettles)
    answer = @visitor.post("/factories", { "name" => name, "city" => city, "energy" => energy, "kettles" => kettles.to_s, "products" => "kettles, taps" })
    assert_equal "302", answer.code
  end

  def page(query = nil)
    answer = @visitor.get("/factories#{"?#{query}" if query}")
    assert_equal "200", answer.code, answer.body
    answer.body
  end

  def rows(query = nil)
    table = page(query)[%r{<tbody>.*?</tbody>}m].to_s
    table.scan(%r{<tr>.*?</tr>}m).map { |row| row.scan(%r{<td>(.*?)</td>}m).flatten.map { |cell| Visitor.unescape(cell.strip) } }
  end

  def names(query = nil)
    rows(query).map(&:first)
  end

  def id(name)
    rows.find { |row| row[0] == name }.last[%r{action="/factories/(\h{24})"}, 1]
  end
end
