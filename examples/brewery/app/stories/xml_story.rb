require "builder"

# The guide's own feed, by Builder and by Paceline's builder. The records are read before.
class XmlStory < Story
  self.title = "XML, as quick as text"
  self.slow = "A feed is a template of a few lines, and thousands of small method calls each time it is rendered. With Builder that is where the time goes."
  self.line = "config.paceline.xml = true"
  self.measured = "this guide's feed, all 200 beers; the same bytes twice"

  # What the template sees of a view: the records, and addresses that are ready.
  class View
    TEMPLATE = Rails.root.join("app/views/feeds/show.xml.builder")

    # With the template as a method.
    def self.made
      @made ||= begin
        require "paceline/xml"
        class_eval("def feed(xml)\n#{TEMPLATE.read}\nend", TEMPLATE.to_s, 0)
        self
      end
    end

    attr_reader :feed_url

    def initialize(beers)
      @beers = beers
      @feed_url = "http://brewery.test/feed"
      @urls = beers.to_h { |beer| [beer.id, "http://brewery.test/beers/#{beer.id}"] }
    end

    def beer_url(beer)
      @urls[beer.id]
    end
  end

  def ways
    @ways ||= [
      Way.new("Builder", -> { write(::Builder::XmlMarkup) }, -> { "#{@size / 1024} KB" }),
      Way.new("Paceline's builder", -> { write(Paceline::XML::Builder) })
    ]
  end

  private

  def rounds
    5
  end

  def prepare
    view = View.made
    raise "Builder is Paceline's already: config.paceline.xml is true" if ::Builder::XmlMarkup == Paceline::XML::Builder

    @view = view.new(Beer.includes(:brewery, :notes).order(updated_at: :desc, id: :desc).to_a)
  end

  def write(builder)
    xml = builder.new(indent: 2)
    @view.feed(xml)
    xml.target!.to_s.tap { |text| @size = text.bytesize }
  end
end
