# Each GET of a Rails integration test once more, of the server at TWICE_URL: what it shows from its cache has to be what the application has
# answered within the test. Where it is not, the server's own application is asked at the same moment: it decides. Around each request of a
# test that writes, some pages that were shown before are asked for as well: those that are shown after it have to be the application's. The
# test itself sees nothing of it.
require "json"
require "net/http"
require_relative "../crawl/page"
require_relative "../crawl/served"

module Twice
  HOST = "www.example.com".freeze
  # Two visitors, by their browsers: comparisons of one alone prove nothing to the server.
  BROWSERS = [nil, "a second browser"].freeze
  # Of a route whose pages are not shown yet: requests by which it is seen whether they can be, in so many tests; and those that prove it.
  TRIED = 4
  TESTS = 3
  PROOF = 340
  # Pages that are asked for around a write, of the last so many that were shown.
  AROUND = 6
  KEPT = 200
  FRESH = { "Cache-Control" => "no-cache" }.freeze
  # Tables that are no data.
  OWN = %w[schema_migrations ar_internal_metadata].freeze

  # A request of a test, as it is sent to the server: first with the cookies of the test, and then, as a browser does, with those that the
  # server has set. It knows the token of no other session.
  class Question
    NOT_SENT = %w[HTTP_HOST HTTP_VERSION HTTP_CONNECTION HTTP_USER_AGENT HTTP_COOKIE].freeze

    def initialize(env)
      @path = [env["PATH_INFO"], *(env["QUERY_STRING"] unless env["QUERY_STRING"].to_s.empty?)].join("?")
      sent = env.select { |name, value| name.start_with?("HTTP_") && !NOT_SENT.include?(name) && value.is_a?(String) }
      @headers = sent.transform_keys { |name| name.delete_prefix("HTTP_").tr("_", "-") }
      @headers["Content-Type"] = env["CONTENT_TYPE"] unless env["CONTENT_TYPE"].to_s.empty?
      @headers["Host"] = env["HTTP_HOST"]
      @cookies = env["HTTP_COOKIE"].to_s.split("; ").to_h { |pair| [pair[/\A[^=]*/], pair[/=(.*)/m, 1].to_s] }
    end

    attr_reader :path

    def route = Crawl::Served.route(path)

    # By whom it was asked.
    def key = [path, @headers["AUTHORIZATION"], @headers["X-REDMINE-API-KEY"], @cookies.keys]

    def ask(http, browser, more)
      get = Net::HTTP::Get.new(path, @headers.merge(more))
      get["User-Agent"] = browser
      get["Cookie"] = @cookies.map { |pair| pair.join("=") }.join("; ") unless @cookies.empty?
      http.request(get).tap do |answer|
        answer.get_fields("set-cookie").to_a.each { |cookie| @cookies.store(*cookie[/\A[^;]*/].split("=", 2)) }
      end
    end
  end

  class << self
    # The name of the test that runs.
    attr_accessor :test

    def install
      @found = { "tests" => 0, "gets" => 0, "writes" => 0, "outlasting" => 0, "shown" => Hash.new(0), "apart" => [], "failed" => [], "differences" => [] }
      @tried = Hash.new(0)
      @pages = {}
      @random = Random.new(1)
      @http = URI(ENV.fetch("TWICE_URL")).then { |url| Net::HTTP.start(url.host, url.port, read_timeout: 120) }
      ActiveSupport::TestCase.use_transactional_tests = false
      ActiveSupport::TestCase.prepend(Emptied)
      ActionDispatch::Integration::Session.prepend(Session)
      # The tests post without tokens.
      ActionController::Base.class_eval { def verified_request? = true }
      Minitest.after_run { File.write("twice.json", JSON.generate(@found)) }
    end

    def ended(test)
      @found["tests"] += 1
      @found["failed"] << "#{test.class}##{test.name}: #{test.failures.first.message.lines.first&.strip.to_s[0, 200]}" unless test.failures.empty? || test.skipped?
    end

    # The application has answered this request of the test.
    def answered(test, request, response)
      return unless request.get? && request.host == HOST && !request.ssl? && request.script_name.empty? && request.remote_addr == "127.0.0.1"

      @found["gets"] += 1
      own = Crawl::Page.new(response.status.to_s, Crawl::Page::FIELDS.to_h { |name| [name, response.headers.find { |key, _| key.casecmp?(name) }&.last] }, response.body.to_s.b)
      question = Question.new(request.env)
      compare(test, question, own)
      return unless own.code == "200"

      compare(test, question, own) || (prove(question) && compare(test, question, own))
    end

    # Runs the block, in which the test writes.
    def around(test)
      pages = @pages.values.sample(AROUND, random: @random)
      pages.each { |question| ask(question) }
      yield.tap do
        @found["writes"] += 1
        pages.each do |question|
          shown = ask(question)
          next unless shown.hit?

          @found["outlasting"] += 1
          judge("#{test}, after it wrote", question, shown)
        end
      end
    end

    private

    # True: the server's application answers the same.
    def judge(test, question, shown)
      real = ask(question, FRESH)
      difference = real.hit? ? "a page is shown although it is asked of the application" : shown.difference(real)
      @found["differences"] << "#{test}: #{question.path}: #{difference}" if difference
      difference.nil?
    end

    # True: it was a hit.
    def compare(test, question, own)
      shown = ask(question)
      return false unless shown.hit?

      @found["shown"][question.route] += 1
      @pages.delete(question.key)
      @pages[question.key] = question
      @pages.shift if @pages.size > KEPT
      # The server's application may know less than the test's, as what is stubbed; then it is the measure.
      within = shown.difference(own, %w[content-type])
      @found["apart"] << "#{question.route}: #{within}"[0, 500] if within && judge(test, question, shown)
      true
    end

    # Asks until pages of the route are shown, if they can be. True: they may be now.
    def prove(question)
      route = question.route
      return false if (@tried[route] += 1) > TESTS

      before = hits(route)
      TRIED.times { ask(question) }
      return false unless hits(route) > before

      PROOF.times.any? { ask(question).hit? }
    end

    def hits(route) = Crawl::Served.routes(Dir.pwd).dig(route, "hits").to_i

    def ask(question, more = {})
      @browser = @browser.to_i + 1
      Crawl::Page.of(question.ask(@http, BROWSERS[@browser % 2], more))
    end
  end

  # A session of a test.
  module Session
    def process(method, *, **)
      return Twice.around(Twice.test) { super } unless method == :get

      super.tap { Twice.answered(Twice.test, request, response) }
    end
  end

  # Tests are committed here, so each begins with an empty database; and the server's processes forget the settings that they have kept.
  module Emptied
    def setup_fixtures(*)
      Twice.test = "#{self.class}##{name}"
      connection = ActiveRecord::Base.connection
      tables = connection.tables - OWN
      connection.transaction { tables.each { |table| connection.execute("DELETE FROM #{connection.quote_table_name(table)}") } }
      super
      Setting.create!(name: "app_title", value: "Redmine")
      Setting.clear_cache
      # A test turns it off, as it was in its own environment.
      ActionController::Base.allow_forgery_protection = true
    end

    def after_teardown
      super
      Twice.ended(self)
    end
  end
end
