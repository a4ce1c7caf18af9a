# Outbound calls through the front: origins whose answers are blocks in the test itself, and callers that speak as the gem does.
# It asserts nothing itself.
require_relative "scenario"
require_relative "egress_caller"
require_relative "origin"
require_relative "secure_origin"

module EgressScenario
  include Scenario
  include SecureOrigin

  APP = { "config.ru" => 'run ->(_) { [200, {}, [ENV["PACELINE_EGRESS"].to_s]] }' }.freeze
  OK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".freeze

  def teardown
    super
    Array(@origins).each(&:close)
    Array(@callers).each(&:close)
  end

  def front(toml = "", **more)
    @dir ||= app(APP.merge("paceline.toml" => toml))
    @server = serve(@dir, **more)
  end

  def socket = File.join(@dir, "tmp/paceline-egress.sock")
  def caller_ = EgressCaller.new(socket).tap { |made| (@callers ||= []) << made }
  def call(...) = (@caller ||= caller_).call(...)

  def origin(...) = Origin.new(...).tap { |origin| (@origins ||= []) << origin }

  # Answers each request with what the block makes of its head and body; they go to @asked.
  def answering(&answer)
    answer ||= ->(_, _) { OK }
    @asked = Queue.new
    origin do |link, number|
      while (head = link.head)
        body = link.body(head)
        @asked << [head, body, number]
        link.write(answer.call(head, body))
      end
    end
  end

  def serving_ok = ->(link, *) { link.write(OK) while (head = link.head) && link.body(head) }

  def error(response) = response["paceline-egress-error"]

  def told(response) = response["paceline-egress"].split(", ").to_h { |member| member.split("=", 2) }
end
