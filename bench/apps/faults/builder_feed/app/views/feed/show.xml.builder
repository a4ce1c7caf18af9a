xml.instruct!
xml.feed(xmlns: "http://www.w3.org/2005/Atom") do
  xml.title "New books"
  @books.each do |book|
    xml.entry do
      xml.id "tag:shop.test,2026:#{book.id}"
      xml.title book.title
      xml.link rel: "alternate", href: "/books/#{book.id}"
      xml.category term: book.subject
      xml.price book.cents, currency: "EUR"
      xml.summary book.blurb, type: "text"
    end
  end
end
