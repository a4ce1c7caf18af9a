# Somebody with a browser and, where there is one, a key for the application's API. Each GET can be asked twice: of the cache, and of the
# application at the same moment.
require_relative "../../e2e/support/visitor"
require_relative "served"

module Crawl
  class Person < Visitor
    # What differs from answer to answer.
    TOKENS = /(?<=csrf-token" content=")[^"]+|(?<=authenticity_token" value=")[^"]+/
    # Asks the application, whatever is kept.
    BESIDE = { "Cache-Control" => "no-cache" }.freeze
    FIELDS = %w[content-type cache-control content-language content-disposition link vary x-frame-options].freeze

    attr_reader :name, :key

    # `heard` is given each request and its answer.
    def initialize(url, name, key = nil, &heard)
      super(url)
      @name = name
      @key = key
      @heard = heard
    end

    def hit?(answer) = HIT.match?(answer["cache-status"].to_s)

    # Of a hit: what it should have been, in words; nil if it was that. `took`: the answer, and the application's if it was a hit.
    def difference(path)
      shown = get(path)
      return unless hit?(shown)

      real = get(path, BESIDE)
      yield shown, real if block_given?
      return "#{name}, #{path}: a page is shown although it is asked of the application" if hit?(real)

      where = ["code", *FIELDS].find { |field| value(shown, field) != value(real, field) }
      return "#{name}, #{path}: #{where} is #{value(shown, where).inspect}, and #{value(real, where).inspect} of the application" if where

      kept, own = [shown, real].map { |answer| plain(answer) }
      "#{name}, #{path}: #{around(kept, own)}" unless kept == own
    end

    def plain(answer) = answer.body.to_s.gsub(TOKENS, "")

    # With the key. `body`: of JSON.
    def json(method, path, body = nil)
      request = Net::HTTP.const_get(method.capitalize).new(path, "Content-Type" => "application/json")
      request.body = JSON.generate(body) if body
      answer = request(request)
      raise "#{name}: #{method} #{path}: #{answer.code} #{answer.body}" unless answer.code.start_with?("2")

      answer.body.to_s.start_with?("{") ? JSON.parse(answer.body) : {}
    end

    private

    def value(answer, field)
      return answer.code if field == "code"

      # Of pages that belong to a session nobody else may keep a copy: that is said more strictly.
      own = answer[field]
      field == "cache-control" && own.to_s.include?("private") ? "private" : own
    end

    def around(kept, own)
      at = kept.each_char.zip(own.each_char).index { |one, other| one != other } || [kept.size, own.size].min
      kept, own = [kept, own].map { |text| text[[at - 60, 0].max, 160] }
      "shown was #{kept.inspect}, the application's is #{own.inspect}"
    end

    def request(request)
      request["User-Agent"] = "#{name}'s browser"
      request["X-Redmine-API-Key"] = key if key && request.path.match?(/\.json\b/)
      super.tap { |answer| @heard&.call(request, answer) }
    end
  end
end
