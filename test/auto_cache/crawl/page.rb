# A page as somebody was answered it: whether the automatic page cache has shown it, and in what it differs from the application's. It knows what of a
# session's page changes with each answer, and what is said more strictly of it.
module Crawl
  class Page
    HIT = /; hit;.*detail=auto/
    FIELDS = %w[content-type cache-control content-language content-disposition link vary x-frame-options].freeze
    # What differs from answer to answer: tokens, and the names of Redmine's forms.
    TOKENS = /(?<=csrf-token" content=")[^"]+|(?<=authenticity_token" value=")[^"]+|(?<=-)[0-9a-f]{8}(?=")/n

    attr_reader :code, :body

    # Of an answer that gives its fields by `[]`.
    def self.of(answer)
      new(answer.code, [*FIELDS, "cache-status"].to_h { |name| [name, answer[name]] }, answer.body.to_s.b)
    end

    # `body`: binary.
    def initialize(code, fields, body)
      @code = code
      @fields = fields
      @body = body
    end

    def hit? = HIT.match?(@fields["cache-status"].to_s)
    def plain = body.gsub(TOKENS, "")

    # In words; nil if there is none. `own`: the application's.
    def difference(own, names = FIELDS)
      return "status #{code}, and #{own.code} of the application" unless code == own.code

      name = names.find { |field| strict(field) != own.strict(field) }
      return "#{name} #{strict(name).inspect}, and #{own.strict(name).inspect} of the application" if name

      around(plain, own.plain) unless plain == own.plain
    end

    # Of pages that belong to a session nobody else may keep a copy: that is said more strictly.
    def strict(field)
      said = @fields[field]
      field == "cache-control" && said.to_s.include?("private") ? "private" : said
    end

    private

    def around(shown, own)
      at = shown.bytes.zip(own.bytes).index { |one, another| one != another } || [shown.size, own.size].min
      shown, own = [shown, own].map { |text| text[[at - 60, 0].max, 160] }
      "shown was #{shown.inspect}, the application's is #{own.inspect}"
    end
  end
end
