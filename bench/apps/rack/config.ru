# frozen_string_literal: true

# The Rack application of the scenarios that need no framework: one path each.
require "builder"
require "digest"
require "rack"

# A body of many small strings, as templates and XML builders make them. Not an Array: nobody knows its length.
class Chunks
  TEXT = Array.new(1300) { |i| format("<li>line %04d of a page in pieces</li>\n", i).freeze }.freeze

  def each(&block)
    TEXT.each(&block)
  end
end

# A page of 1,300 lines that is made while the application works and sent line by line. The application's own time is in a header, as a log would have it.
page = lambda do |_env|
  began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  lines = Array.new(1300) { |i| format("<li>line %04d of a page made in the application</li>\n", i) }
  inside = Process.clock_gettime(Process::CLOCK_MONOTONIC) - began
  [200, { "content-type" => "text/html; charset=utf-8", "x-runtime" => format("%.6f", inside) }, lines]
end

# An XML feed of 54 KB that Builder writes piece by piece straight into the response.
class Feed
  class Pieces
    def initialize(block)
      @block = block
    end

    def <<(text)
      @block.call(text)
      self
    end
  end

  def each(&block)
    xml = Builder::XmlMarkup.new(target: Pieces.new(block))
    xml.instruct!
    xml.feed("xmlns" => "http://www.w3.org/2005/Atom") do
      xml.title("Beers & breweries")
      170.times { |i| entry(xml, i) }
    end
  end

  private

  def entry(xml, number)
    xml.entry do
      xml.id("tag:bench.test,2026:beer/#{number}")
      xml.title("Beer #{number} <of the house>")
      xml.updated("2026-01-05T09:00:00Z")
      xml.link("rel" => "alternate", "href" => "http://bench.test/beers/#{number}?from=feed&style=pilsner")
      xml.summary("Smells of fresh bread & honey; lean and quick. The finish is long and bitter.")
    end
  end
end

# What was sent, counted and (if asked) digested. Read in pieces, as a form parser does.
upload = lambda do |env|
  digest = Digest::SHA256.new if env["QUERY_STRING"] == "digest"
  bytes = 0
  buffer = String.new
  while env["rack.input"].read(65_536, buffer)
    bytes += buffer.bytesize
    digest&.update(buffer)
  end
  [200, { "content-type" => "text/plain" }, ["#{[bytes, digest].compact.join(" ")}\n"]]
end

files = Rack::Files.new(ENV.fetch("BENCH_FILES"))

# 5 ms of work for a page that may not be kept.
burn = lambda do |_env|
  finish = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) + 0.005
  nil while Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) < finish
  [200, { "content-type" => "text/plain", "cache-control" => "no-store", "content-length" => "3" }, ["ok\n"]]
end

HELLO = "Hello from the application\n"
KEPT = Random.new(5).bytes(512).unpack1("H*").freeze

run lambda { |env|
  case env["PATH_INFO"]
  when "/hello" then [200, { "content-type" => "text/plain", "content-length" => HELLO.bytesize.to_s }, [HELLO]]
  when "/chunks" then [200, { "content-type" => "text/html; charset=utf-8" }, Chunks.new]
  when "/page" then page.call(env)
  when "/feed" then [200, { "content-type" => "application/atom+xml; charset=utf-8" }, Feed.new]
  when "/kept" then [200, { "content-type" => "text/plain", "cache-control" => "max-age=86400", "content-length" => KEPT.bytesize.to_s }, [KEPT]]
  when "/burn" then burn.call(env)
  when "/upload" then upload.call(env)
  when "/download.bin" then files.call(env)
  else [404, { "content-type" => "text/plain" }, ["not here\n"]]
  end
}
