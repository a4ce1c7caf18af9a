require "net/http"

# A page that is the same for everybody: computed by its controller each time, and answered by the server's page cache. Asked for over HTTP, where this application
# is served.
class PageAheadStory < Story
  self.title = "A page that is there before it is asked for"
  self.slow = "Router, middleware, session, queries and a view, for a page that is the same for everybody until noon."
  self.line = "expires_in 1.day, public: true; Paceline.changes_at(@release.changes_at)"
  self.measured = "the page /release, 10 times over one connection"

  REQUESTS = 10

  def ways
    @ways ||= [
      # An address that nobody has asked for is in no cache.
      Way.new("the controller, each time", -> { visit { |number| "/release?asked=#{SecureRandom.hex(4)}-#{number}" } }, -> { from_cache(0) }),
      Way.new("the server's cache", -> { visit { "/release" } }, -> { from_cache(1) })
    ]
  end

  private

  def prepare
    @hits = []
    @addresses = ListeningSockets.addresses
    @addresses = [["127.0.0.1", ENV.fetch("PORT", 3000).to_i]] if @addresses.empty?
    @address = @addresses.find { |address| answers?(address) } or raise "no answer at #{@addresses.map { |address| address.join(":") }.join(", ")}"
  end

  # A server may also listen for TLS, or for those who look after it.
  def answers?(address)
    visitor(address).start { |http| http.get("/release").code == "200" }
  rescue SystemCallError, IOError, Net::OpenTimeout, Net::ReadTimeout, Net::HTTPBadResponse
    false
  end

  # How often the last round of a way was answered by the cache.
  def from_cache(place)
    "#{@hits.last(2)[place]} of #{REQUESTS} from the cache"
  end

  def visit
    hits = 0
    pages = visitor(@address).start do |http|
      Array.new(REQUESTS) do |number|
        page = http.get(yield(number))
        hits += 1 if page["cache-status"].to_s.include?("hit")
        [page.code, page.body[%r{<h1>.*?</h1>}]]
      end
    end
    @hits << hits
    raise "/release said #{pages.map(&:first).uniq.join(", ")}" unless pages.all? { |code, _| code == "200" }

    pages.uniq
  rescue SystemCallError, Net::OpenTimeout, Net::ReadTimeout => e
    raise "no answer at #{@address.join(":")}: #{e.message}"
  end

  # It connects from an address of its own, so that it is on no kept connection of Paceline's where `install!` was called.
  def visitor((host, port))
    http = Net::HTTP.new(host, port)
    http.local_host = "127.0.0.1"
    http.open_timeout = http.read_timeout = 5
    http
  end
end
