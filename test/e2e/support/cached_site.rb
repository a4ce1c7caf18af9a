# A site behind the page cache, whose application is a block in the test itself: it counts its calls, and waits on queues of
# the test instead of sleeping. It asserts nothing itself.
require_relative "scenario"
require_relative "origin"
require_relative "wire"

module CachedSite
  include Scenario

  # A request as the application sees it.
  Asked = Struct.new(:method, :target, :head, :body) do
    def [](name) = head[name]
    def path = target.split("?").first
    def cookies = head.all("cookie").flat_map { |line| line.split(/; */) }.to_h { |pair| pair.split("=", 2) }
  end

  def teardown
    super
    Array(@clients).each(&:close)
    Array(@origins).each(&:close)
  end

  # Starts a server in front of the block. It gets a request (Asked) and returns [status, fields, body], or nothing if it has
  # written to the link, its second argument, by itself.
  def site(toml = "", threads: 2, top: "", arguments: [], &application)
    @calls = Queue.new
    @application = application
    origin = Origin.new do |link, _|
      while (head = link.head)
        method, target, = head.line.split
        asked = Asked.new(method, target, head, link.body(head))
        @calls << asked
        answer(link, asked)
      end
    end
    (@origins ||= []) << origin
    config = "front_threads = #{threads}\n#{top}\n[[site]]\nupstream = \"#{origin.url}\"\n#{toml}"
    @server = serve(app("paceline.toml" => config), *arguments, ready: false)
  end

  def answer(link, asked)
    status, fields, body = @application.call(asked, link)
    return unless status.is_a?(Integer)
    bodiless = asked.method == "HEAD" || [204, 304].include?(status)
    lines = ["HTTP/1.1 #{status} X", *fields.flat_map { |name, values| Array(values).map { |value| "#{name}: #{value}" } }]
    lines << "content-length: #{body.to_s.bytesize}" unless [204, 304].include?(status) || fields.keys.any? { |name| name.casecmp?("content-length") }
    link.write(lines.join("\r\n"), "\r\n\r\n", bodiless ? "" : body.to_s)
  end

  # How often the application has been called.
  def calls = @calls.size

  # A connection that is kept.
  class Client
    def initialize(server) = @socket = server.connect

    attr_reader :socket

    def send(target = "/", fields = {}, method: "GET", body: nil, host: "shop.test")
      lines = ["#{method} #{target} HTTP/1.1", "Host: #{host}"]
      lines += fields.flat_map { |name, values| Array(values).map { |value| "#{name}: #{value}" } }
      lines << "Content-Length: #{body.bytesize}" if body
      @socket.write(lines.join("\r\n"), "\r\n\r\n", body.to_s)
      self
    end

    def receive(to: "GET") = Timeout.timeout(Scenario::PATIENCE) { Wire.response(@socket, to: to) }

    def head = Timeout.timeout(Scenario::PATIENCE) { Wire.head(@socket) }

    # A piece of a chunked body.
    def chunk = Timeout.timeout(Scenario::PATIENCE) { Wire.chunk(@socket) }

    def ask(target = "/", fields = {}, method: "GET", **more)
      send(target, fields, method: method, **more)
      receive(to: method)
    end

    def close = @socket.close
  end

  def client = Client.new(@server).tap { |client| (@clients ||= []) << client }

  # One request on the test's own connection.
  def ask(...) = (@client ||= client).ask(...)

  # Cache-Status of a response, which has to be an RFC 9211 list of one member with its parameters.
  def status(response)
    line = response["cache-status"] or return nil
    assert_match(/\Apaceline(; [a-z][a-z-]*(=(-?\d+|[a-z][a-z0-9-]*))?)*\z/, line)
    line.delete_prefix("paceline").delete_prefix("; ")
  end

  # Without the seconds left, which the machine's speed decides.
  def words(response) = status(response)&.gsub(/(; )?ttl=-?\d+/, "")

  # Waits until that many requests have come to the application.
  def reached(number) = eventually("#{number} calls of the app, not #{calls}") { calls >= number }
end
