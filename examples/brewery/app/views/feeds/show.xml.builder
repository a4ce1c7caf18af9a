xml.instruct!
xml.feed xmlns: "http://www.w3.org/2005/Atom" do
  xml.title "Brewery Guide"
  xml.id feed_url
  xml.link rel: "self", href: feed_url
  xml.updated @beers.first&.updated_at&.iso8601
  @beers.each do |beer|
    xml.entry do
      xml.title "#{beer.name} (#{beer.style})"
      xml.id beer_url(beer)
      xml.link href: beer_url(beer)
      xml.updated beer.updated_at.iso8601
      xml.author { xml.name beer.brewery.name }
      xml.category term: beer.style
      xml.summary beer.about
      xml.content type: "html" do
        beer.notes.each { |note| xml.text! "<p>#{ERB::Util.h(note.body)} (#{ERB::Util.h(note.author)}, #{note.score}/5)</p>" }
      end
    end
  end
end
