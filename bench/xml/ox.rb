# frozen_string_literal: true

# Ox::Builder, by hand: elements are named by strings and closed by `pop`.
require "ox"
require_relative "page"

module Bench
  class XmlOx
    def work(name) = method(name).to_proc

    def small
      order = Documents.order
      xml = start
      xml.element("order", number: order.number.to_s)
      leaf(xml, "to", order.customer)
      leaf(xml, "by", order.seller)
      leaf(xml, "item", order.item)
      leaf(xml, "crates", order.crates.to_s)
      leaf(xml, "at", order.day)
      xml.element("cold")
      xml.pop
      leaf(xml, "note", order.note)
      xml.close
      xml.to_s
    end

    def feed
      feed = Documents.feed
      xml = start
      xml.element("feed", xmlns: "http://www.w3.org/2005/Atom")
      leaf(xml, "id", feed.id)
      leaf(xml, "title", feed.title)
      leaf(xml, "updated", feed.updated)
      xml.element("link", rel: "self", type: "application/atom+xml", href: feed.url)
      xml.pop
      feed.entries.each { |entry| entry(xml, entry) }
      xml.close
      xml.to_s
    end

    def board
      board = Documents.board
      xml = start
      xml.element("board")
      leaf(xml, "title", board.title)
      board.posts.each do |post|
        xml.element("post", number: post.number.to_s)
        leaf(xml, "author", post.author)
        leaf(xml, "message", post.text)
        xml.pop
      end
      xml.close
      xml.to_s
    end

    private

    def entry(xml, entry)
      xml.element("entry")
      leaf(xml, "id", entry.id)
      leaf(xml, "title", entry.title)
      leaf(xml, "updated", entry.updated)
      xml.element("author")
      leaf(xml, "name", entry.author)
      xml.pop
      xml.element("link", rel: "alternate", type: "text/html", href: entry.url)
      xml.pop
      xml.element("category", term: entry.style, label: entry.strength)
      xml.pop
      leaf(xml, "summary", entry.summary)
      xml.pop
    end

    def start
      xml = Ox::Builder.new(indent: XmlPage::INDENT)
      xml.instruct(:xml, version: "1.0", encoding: "UTF-8")
      xml
    end

    def leaf(xml, name, text)
      xml.element(name)
      xml.text(text)
      xml.pop
    end
  end
end
