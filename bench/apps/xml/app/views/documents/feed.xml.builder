xml.instruct!
xml.feed(xmlns: "http://www.w3.org/2005/Atom") do
  xml.id @feed.id
  xml.title @feed.title
  xml.updated @feed.updated
  xml.link(rel: "self", type: "application/atom+xml", href: @feed.url)
  @feed.entries.each do |entry|
    xml.entry do
      xml.id entry.id
      xml.title entry.title
      xml.updated entry.updated
      xml.author do
        xml.name entry.author
      end
      xml.link(rel: "alternate", type: "text/html", href: entry.url)
      xml.category(term: entry.style, label: entry.strength)
      xml.summary entry.summary
    end
  end
end
