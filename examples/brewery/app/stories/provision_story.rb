require "net/http"
require "suppliers"

# Some calls to the suppliers, 30 ms away (lib/suppliers.rb): each on a connection of its own, on connections that are kept, and all at once.
class ProvisionStory < Story
  self.title = "Eight calls for one page"
  self.slow = "Each HTTPS call opens a connection: two trips to the other side before the question is sent. A page with eight calls waits for them eight times."
  self.line = "require \"paceline/http\"; Paceline::HTTP.install!"
  self.measured = "8 HTTPS calls to a server that is 30 ms away, as the page /provision makes 15"

  CALLS = 8

  def ways
    @ways ||= [
      Way.new("Net::HTTP", -> { counted { plain } }, -> { connections }),
      Way.new("Paceline::HTTP, one after another", -> { counted { kept } }, -> { connections }),
      Way.new("Paceline::HTTP.all", -> { counted { together } }, -> { connections })
    ]
  end

  private

  def rounds
    1
  end

  def prepare
    require "paceline/http"
    @suppliers = Suppliers.place
    @opened = []
  end

  def counted
    Paceline::HTTP::Account.open
    yield
  ensure
    account = Paceline::HTTP::Account.close
    @opened << account.new_connections if account
  end

  # The notes are asked for in the order of the ways, and the first round was the warm-up.
  def connections
    @notes ||= @opened.last(ways.size)
    opened = @notes.shift
    "#{opened} TLS #{"connection".pluralize(opened)} opened"
  end

  # Net::HTTP as Ruby has it, also where `install!` was called: a call from an address of its own opens a connection of its own.
  def plain
    Array.new(CALLS) do |number|
      http = Net::HTTP.new("localhost", URI(@suppliers.url).port)
      http.use_ssl = true
      http.ca_file = @suppliers.ca_file
      http.local_host = "127.0.0.1"
      http.get("/prices/#{number}").body
    end
  end

  def kept
    Array.new(CALLS) { |number| Paceline::HTTP.get("#{@suppliers.url}/prices/#{number}", ca_file: @suppliers.ca_file).body }
  end

  def together
    Paceline::HTTP.all { |calls| CALLS.times { |number| calls.get("#{@suppliers.url}/prices/#{number}", ca_file: @suppliers.ca_file) } }.map(&:body)
  end
end
