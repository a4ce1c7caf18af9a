# frozen_string_literal: true

# One visit of a page as a browser makes it: the page, and the style sheets and scripts that it names, compressed if the server offers that, and nothing again
# that is fresh or that the server says is unchanged. Counts requests and bytes of bodies.
require "net/http"
require "zlib"

module Bench
  class DoctorVisit
    Count = Struct.new(:requests, :bytes)
    Kept = Struct.new(:fresh, :etag)

    def initialize(port)
      @port = port
      @kept = {}
    end

    # The count of one visit; the next one of the same object comes back to what this one has kept.
    def visit(path)
      count = Count.new(0, 0)
      Net::HTTP.start("127.0.0.1", @port) do |http|
        page = ask(http, path, count)
        self.class.named(page).each { |file| ask(http, file, count) unless @kept[file]&.fresh }
      end
      count
    end

    # The files that a page names.
    def self.named(page)
      page.scan(/(?:href|src)="([^"]+\.(?:css|js))"/).flatten.uniq
    end

    # Whether a browser uses it again without a question.
    def self.fresh?(cache_control)
      cache_control.to_s[/max-age=(\d+)/, 1].to_i.positive? && !cache_control.match?(/no-cache|no-store/)
    end

    private

    def ask(http, path, count)
      request = Net::HTTP::Get.new(path, "Accept-Encoding" => "gzip")
      request["If-None-Match"] = @kept[path].etag if @kept[path]&.etag
      response = http.request(request)
      count.requests += 1
      count.bytes += response.body.to_s.bytesize
      @kept[path] = Kept.new(self.class.fresh?(response["Cache-Control"]), response["ETag"])
      response["Content-Encoding"] == "gzip" ? Zlib.gunzip(response.body) : response.body.to_s
    end
  end
end
