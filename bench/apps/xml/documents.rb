# frozen_string_literal: true

# What the documents of `bin/bench xml` tell: the same every time. No text has quotes in it, which not every writer leaves alone.
module Documents
  Order = Struct.new(:number, :customer, :seller, :item, :crates, :day, :note, keyword_init: true)
  Entry = Struct.new(:id, :title, :updated, :author, :url, :style, :strength, :summary, keyword_init: true)
  Feed = Struct.new(:id, :title, :updated, :url, :entries, keyword_init: true)
  Post = Struct.new(:number, :author, :text, keyword_init: true)
  Board = Struct.new(:title, :posts, keyword_init: true)

  NAMES = %w[small feed board].freeze
  TITLES = ["Kölsch", "Weißbier hell", "Hop & Malt", "Bière de garde", "Pilsner", "Schwarzbier <2 %", "Märzen", "Stout"].freeze
  AUTHORS = ["Jörg Müller", "Anna Brewer", "Zoë & Co", "Łukasz Piwo", "Ines Weber"].freeze
  STYLES = %w[lager ale wheat stout sour].freeze
  SUMMARIES = ["Smells of fresh bread & honey; lean and quick.", "Dry, pale, 4 < 5 % by volume – a table beer.", "Ripe fruit, a long bitter finish; keep it cool.",
               "Brewed with malt from the house’s own floor."].freeze
  SENTENCES = ["The kettle came up to the boil <em>a quarter of an hour</em> late &amp; nobody could tell <b>why</b>.",
               "We held the <b>mash</b> at 64 °C for <em>an hour</em> and at 72 °C for <em>another</em> twenty minutes.",
               "After that the <b>wort</b> ran clear, a little <em>darker</em> than in spring –<br>as dark as it <em>should</em> be.",
               "Whoever has a <em>spare valve</em> of the <b>old</b> kind, please write to the <b>brew house</b>.",
               "<b>Malt</b> &amp; <b>hops</b> are paid until the end of <em>March</em>; water is <strong>not</strong>.",
               "It was the year’s <em>first</em> batch with <b>barley</b> of our own,<br>from the field behind the <b>church</b>.",
               "Ask again when the <b>yeast</b> has settled,<br>it needs <em>a week</em> if the cellar stays &lt; 10 °C."].freeze

  module_function

  def order
    @order ||= Order.new(number: 4711, customer: "Miller & Sons", seller: "Zoë W", item: "Kölsch", crates: 24, day: "Friday", note: "< 8 °C")
  end

  def feed
    @feed ||= Feed.new(id: "tag:beers.test,2026:feed", title: "New beers & breweries", updated: "2026-11-20T09:00:00Z", url: "http://beers.test/new.atom",
                       entries: Array.new(129) { |i| entry(i) })
  end

  def board
    @board ||= Board.new(title: "Brew house & cellar", posts: Array.new(16) { |i| Post.new(number: i + 1, author: AUTHORS[i % 5], text: text(i)) })
  end

  # What a view of the document NAME has for its instance variables.
  def assigns(name)
    case name
    when "small" then { "order" => order }
    when "feed" then { "feed" => feed }
    when "board" then { "board" => board }
    else {}
    end
  end

  def entry(number)
    Entry.new(id: "tag:beers.test,2026:beer/#{number}", title: "#{TITLES[number % 8]} No. #{number}", author: AUTHORS[number % 5],
              updated: format("2026-11-%02dT%02d:30:00Z", 1 + number / 24 % 28, number % 24), url: "http://beers.test/beers/#{number}?from=feed&page=#{number / 25}",
              style: STYLES[number % 5], strength: format("%.1f %%", (35 + number % 40) / 10.0), summary: SUMMARIES[number % 4])
  end

  # HTML, as somebody wrote it into a form.
  def text(number)
    Array.new(5) { |paragraph| "<p>#{Array.new(4 + (number % 5 / 2 % 2)) { |i| SENTENCES[(number + (paragraph * 3) + i) % 7] }.join(" ")}</p>" }.join("\n")
  end
  private_class_method :entry, :text
end
