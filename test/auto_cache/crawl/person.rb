# Somebody with a browser and, where there is one, a key for the application's API. Each GET can be asked twice: of the cache, and of the
# application at the same moment.
require_relative "../../e2e/support/visitor"
require_relative "page"
require_relative "served"

module Crawl
  class Person < Visitor
    # Asks the application, whatever is kept.
    BESIDE = { "Cache-Control" => "no-cache" }.freeze

    attr_reader :name, :key

    # `heard` is given each request and its answer.
    def initialize(url, name, key = nil, &heard)
      super(url)
      @name = name
      @key = key
      @heard = heard
    end

    def hit?(answer) = Page.of(answer).hit?

    # Of a hit: what it should have been, in words; nil if it was that. `took`: the answer, and the application's if it was a hit.
    def difference(path)
      shown = get(path)
      return unless hit?(shown)

      real = get(path, BESIDE)
      yield shown, real if block_given?
      return "#{name}, #{path}: a page is shown although it is asked of the application" if hit?(real)

      difference = Page.of(shown).difference(Page.of(real))
      "#{name}, #{path}: #{difference}" if difference
    end

    def plain(answer) = Page.of(answer).plain

    # With the key. `body`: of JSON.
    def json(method, path, body = nil)
      request = Net::HTTP.const_get(method.capitalize).new(path, "Content-Type" => "application/json")
      request.body = JSON.generate(body) if body
      answer = request(request)
      raise "#{name}: #{method} #{path}: #{answer.code} #{answer.body}" unless answer.code.start_with?("2")

      answer.body.to_s.start_with?("{") ? JSON.parse(answer.body) : {}
    end

    private

    def request(request)
      request["User-Agent"] = "#{name}'s browser"
      request["X-Redmine-API-Key"] = key if key && request.path.match?(/\.json\b/)
      super.tap { |answer| @heard&.call(request, answer) }
    end
  end
end
