# frozen_string_literal: true

# libxml's writer (ruby-libxml), by hand.
require "libxml"
require_relative "page"

module Bench
  class XmlLibxml
    def work(name) = method(name).to_proc

    def small
      order = Documents.order
      written do |xml|
        xml.start_element("order")
        xml.write_attribute("number", order.number.to_s)
        xml.write_element("to", order.customer)
        xml.write_element("by", order.seller)
        xml.write_element("item", order.item)
        xml.write_element("crates", order.crates.to_s)
        xml.write_element("at", order.day)
        empty(xml, "cold")
        xml.write_element("note", order.note)
      end
    end

    def feed
      feed = Documents.feed
      written do |xml|
        xml.start_element("feed")
        xml.write_attribute("xmlns", "http://www.w3.org/2005/Atom")
        xml.write_element("id", feed.id)
        xml.write_element("title", feed.title)
        xml.write_element("updated", feed.updated)
        empty(xml, "link", "rel", "self", "type", "application/atom+xml", "href", feed.url)
        feed.entries.each { |entry| entry(xml, entry) }
      end
    end

    def board
      board = Documents.board
      written do |xml|
        xml.start_element("board")
        xml.write_element("title", board.title)
        board.posts.each do |post|
          xml.start_element("post")
          xml.write_attribute("number", post.number.to_s)
          xml.write_element("author", post.author)
          xml.write_element("message", post.text)
          xml.end_element
        end
      end
    end

    private

    def entry(xml, entry)
      xml.start_element("entry")
      xml.write_element("id", entry.id)
      xml.write_element("title", entry.title)
      xml.write_element("updated", entry.updated)
      xml.start_element("author")
      xml.write_element("name", entry.author)
      xml.end_element
      empty(xml, "link", "rel", "alternate", "type", "text/html", "href", entry.url)
      empty(xml, "category", "term", entry.style, "label", entry.strength)
      xml.write_element("summary", entry.summary)
      xml.end_element
    end

    # Elements that are still open are closed with the document.
    def written
      xml = LibXML::XML::Writer.string
      xml.set_indent(true)
      xml.set_indent_string(" " * XmlPage::INDENT)
      xml.start_document(encoding: LibXML::XML::Encoding::UTF_8)
      yield xml
      xml.end_document
      xml.result
    end

    def empty(xml, name, *attributes)
      xml.start_element(name)
      attributes.each_slice(2) { |attribute, value| xml.write_attribute(attribute, value) }
      xml.end_element
    end
  end
end
