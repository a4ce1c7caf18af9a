# frozen_string_literal: true

# The floor: constant strings and escaped values appended to one String, as nobody would want to write it.
require "cgi/escape"
require_relative "page"

module Bench
  class XmlFloor
    def work(name) = method(name).to_proc

    def small
      order = Documents.order
      <<~XML
        <?xml version="1.0" encoding="UTF-8"?>
        <order number="#{order.number}">
          <to>#{CGI.escapeHTML(order.customer)}</to>
          <by>#{CGI.escapeHTML(order.seller)}</by>
          <item>#{CGI.escapeHTML(order.item)}</item>
          <crates>#{order.crates}</crates>
          <at>#{CGI.escapeHTML(order.day)}</at>
          <cold/>
          <note>#{CGI.escapeHTML(order.note)}</note>
        </order>
      XML
    end

    def feed
      feed = Documents.feed
      out = +<<~XML
        <?xml version="1.0" encoding="UTF-8"?>
        <feed xmlns="http://www.w3.org/2005/Atom">
          <id>#{CGI.escapeHTML(feed.id)}</id>
          <title>#{CGI.escapeHTML(feed.title)}</title>
          <updated>#{CGI.escapeHTML(feed.updated)}</updated>
          <link rel="self" type="application/atom+xml" href="#{CGI.escapeHTML(feed.url)}"/>
      XML
      feed.entries.each do |entry|
        out << "  <entry>\n    <id>" << CGI.escapeHTML(entry.id) << "</id>\n    <title>" << CGI.escapeHTML(entry.title) << "</title>\n    <updated>" <<
          CGI.escapeHTML(entry.updated) << "</updated>\n    <author>\n      <name>" << CGI.escapeHTML(entry.author) <<
          "</name>\n    </author>\n    <link rel=\"alternate\" type=\"text/html\" href=\"" << CGI.escapeHTML(entry.url) <<
          "\"/>\n    <category term=\"" << CGI.escapeHTML(entry.style) << '" label="' << CGI.escapeHTML(entry.strength) <<
          "\"/>\n    <summary>" << CGI.escapeHTML(entry.summary) << "</summary>\n  </entry>\n"
      end
      out << "</feed>\n"
    end

    def board
      board = Documents.board
      out = +<<~XML
        <?xml version="1.0" encoding="UTF-8"?>
        <board>
          <title>#{CGI.escapeHTML(board.title)}</title>
      XML
      board.posts.each do |post|
        out << '  <post number="' << post.number.to_s << "\">\n    <author>" << CGI.escapeHTML(post.author) << "</author>\n    <message>" <<
          CGI.escapeHTML(post.text) << "</message>\n  </post>\n"
      end
      out << "</board>\n"
    end
  end
end
