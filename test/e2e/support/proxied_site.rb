# A site that another HTTP server answers; what that server does is a block in the test itself. It asserts nothing itself.
require_relative "scenario"
require_relative "origin"
require_relative "wire"

module ProxiedSite
  include Scenario

  def teardown
    super
    Array(@origins).each(&:close)
  end

  def origin(...)
    Origin.new(...).tap { |origin| (@origins ||= []) << origin }
  end

  # Answers each request with the next of these bytes, on as many connections as it takes; the requests' heads go to @heads.
  def scripted(*answers)
    answers = Queue.new(answers)
    @heads = Queue.new
    origin do |link, _|
      while (head = link.head)
        link.body(head)
        @heads << head
        link.write(answers.pop(true))
      end
    end
  end

  # One front thread: connections are kept by each.
  def front(origin, toml: "", files: {}, arguments: [], env: {})
    url = origin.respond_to?(:url) ? origin.url : origin
    config = "front_threads = 1\n[[site]]\nupstream = \"#{url}\"\n#{toml}"
    @server = serve(app({ "paceline.toml" => config }.merge(files)), *arguments, env: env, ready: false)
  end

  def wire(...) = @server.wire(...)

  def get(path = "/", fields = "") = wire("GET #{path} HTTP/1.1\r\nHost: shop.test\r\n#{fields}\r\n")

  OK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".freeze
end
