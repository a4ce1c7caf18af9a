# The brewery guide as the crawl sees it: a copy that test/brewery/prepare has made, guests who come and go, pages, and what guests write.
require_relative "person"

module Crawl
  class Brewery
    GUESTS = 6
    BEERS = 200
    BREWERIES = 40
    STYLES = %w[Pilsner Helles Kellerbier Weissbier Rauchbier].freeze
    # Ways to pages, and how often they are gone beside each other.
    PAGES = { home: 10, breweries: 8, brewery: 25, beers: 12, style: 8, beer: 20, search: 5, feed: 4, audit: 3 }.freeze
    # Of a hundred, so many pages are those of ten beers or breweries that everybody likes.
    POPULAR = 70

    def self.copy(prepared, dir)
      FileUtils.cp_r(File.join(prepared, "."), dir)
      FileUtils.rm_rf(Dir[File.join(dir, "{log,tmp}/*")])
      FileUtils.mkdir_p(File.join(dir, "tmp/pids"))
    end

    attr_reader :people

    def initialize(server, random, &heard)
      @server = server
      @random = random
      @heard = heard
      @people = Array.new(GUESTS) { |nth| person("guest #{nth}") }
    end

    def page
      total = PAGES.values.sum
      at = @random.rand(total)
      path(PAGES.find { |_, weight| (at -= weight).negative? }.first)
    end

    # One of each kind.
    def pages = PAGES.keys.map { |kind| path(kind) }

    def visit
      if @random.rand < 0.1
        at = @random.rand(GUESTS)
        @people[at].finish
        @people[at] = person("guest #{at}")
      end
      [@people.sample(random: @random), page]
    end

    def audience(_) = "guests"

    # A note on a beer, or another price.
    def write
      guest = @people.sample(random: @random)
      beer = popular(BEERS)
      guest.get("/beers/#{beer}")
      answer = if @random.rand < 0.7
                 guest.post("/beers/#{beer}/notes", { "note[author]" => guest.name, "note[score]" => "4", "note[body]" => "Hay, honey, #{@random.rand(1 << 30)}" })
               else
                 price = format("%.2f", 2 + (@random.rand(1000) / 100.0))
                 guest.post("/beers/#{beer}/price", { "_method" => "patch", "beer[price]" => price }, login: [guest.name, "cellar"])
               end
      raise "a guest can't write: #{answer.code}" unless answer.code == "302"

      # What it says of it is shown once.
      guest.follow(answer)
      "writes"
    end

    private

    def person(name) = Person.new(@server.url, name, &@heard)
    def popular(all) = @random.rand(100) < POPULAR ? 1 + @random.rand(10) : 1 + @random.rand(all)

    def path(kind)
      case kind
      when :home then "/"
      when :brewery then "/breweries/#{popular(BREWERIES)}"
      when :beers then "/beers?page=#{1 + @random.rand(3)}"
      when :style then "/beers?style=#{STYLES.sample(random: @random)}"
      when :beer then "/beers/#{popular(BEERS)}"
      when :search then "/search?q=#{STYLES.sample(random: @random).downcase}"
      else "/#{kind}"
      end
    end
  end
end
