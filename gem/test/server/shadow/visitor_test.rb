# frozen_string_literal: true

require_relative "support/shadow_case"

# What a page asks of who its visitor is: whatever way it reads that, and whether or not the page shows it to a stranger.
class ShadowVisitorTest < ShadowCase
  HEADERS = [["cookie", "_shop=abc; user_id=7"], ["authorization", "Bearer abc"], ["user-agent", "stranger"], ["x-forwarded-for", "203.0.113.77"], ["x-api-key", "k"]].freeze
  # None of them shows what it has read.
  ASKING = {
    "the cookies" => ["env['HTTP_COOKIE'].to_s.include?('admin')", "Rack::Request.new(env).cookies['x']", "env.fetch('HTTP_COOKIE', '').size.zero?", "env.key?('HTTP_COOKIE')", "env.values_at('HTTP_COOKIE').none?",
                      "env.dup['HTTP_COOKIE'].nil?", "env.dig('HTTP_COOKIE').nil?"],
    "credentials" => ["env['HTTP_AUTHORIZATION'] == 'Bearer admin'", "env['HTTP_X_API_KEY'] == 'secret'", "Rack::Auth::Basic::Request.new(env).provided?"],
    "the address" => ["env['REMOTE_ADDR'] == '10.0.0.1'", "Rack::Request.new(env).ip == '10.0.0.1'", "env['HTTP_X_FORWARDED_FOR'].nil?"],
    "the browser" => ["env['HTTP_USER_AGENT'].include?('Mobile')"],
    "the session" => ["Rack::Session::Cookie.new(->(e) { e['rack.session']['user_id'].nil?; [200, {}, []] }, secret: 'x' * 64).call(env).first", "(env['rack.session'] = { 'user' => 7 }; env['rack.session']['user'] == 1)"],
    # What is read of a copy, nobody sees.
    "a copy of the request" => ["{}.merge(env)['HTTP_COOKIE'].nil?", "Hash[env].size", "{}.update(env).size", "{ **env }.size", "[env].each_with_object({}) { |one, all| all.update(one) }.size",
                              "JSON.generate(env).size", "env.to_json.size", "Marshal.dump(Hash.instance_method(:select).bind_call(env) { |_, value| value.instance_of?(String) }).size"],
    "a field of the request" => ["env['HTTP_X_TENANT'].nil?", "env['HTTP_CF_IPCOUNTRY'] == 'de'", "Rack::Request.new(env).get_header('HTTP_COUNTRY').nil?"],
    "the whole request" => ["env.to_a.size", "env.each { |_| nil }.size", "env.select { |name, _| name.start_with?('HTTP_C') }.size", "env.map(&:first).size", "env.merge('a' => 1).size", "env.find { |_, value| value == 'x' }",
                            "env.to_h { |name, value| [name, value] }.size", "env.any? { |_, value| value == 'admin' }", "env.inspect.size"]
  }.freeze
  INNOCENT = ["env['PATH_INFO']", "env['QUERY_STRING'] + env['HTTP_HOST']", "Rack::Request.new(env).params.size", "env['rack.url_scheme']", "env['HTTP_ACCEPT']", "env.key?('HTTPS')"].freeze

  def ask(codes)
    answers = codes.each_with_index.to_h { |code, number| ["/#{number}", "(#{code}) ? 'the page' : 'the page'"] }
    with_shadow("require 'rack'\nrequire 'json'\nrequire 'rack/session/cookie'\n#{routes(answers)}") do |shadow|
      codes.each_with_index do |code, number|
        result = shadow.get("/#{number}", headers: HEADERS, stranger: true)
        assert_equal "the page", result["text"], "#{code}: #{result["error"]}"
        yield code, result["asked"]
        assert_nil shadow.get("/#{number}", headers: HEADERS)["asked"], "it looks only when it is told to"
      end
    end
  end

  def test_what_is_asked
    wanted = ASKING.flat_map { |what, codes| codes.map { |code| [code, what] } }.to_h
    ask(wanted.keys) do |code, asked|
      assert_includes asked.map(&:first), wanted[code], code
      assert_match(/\Aconfig\.ru:\d+\z/, asked.to_h[wanted[code]], code) unless wanted[code] == "a copy of the request"
    end
  end

  def test_what_is_nobodys
    ask(INNOCENT) { |code, asked| assert_equal [], asked, code }
  end

  def test_a_stranger_comes_from_an_address_that_nobody_has
    with_shadow(routes("/" => "env['REMOTE_ADDR']")) do |shadow|
      assert_equal %w[127.0.0.1 203.0.113.77], [shadow.get("/")["text"], shadow.get("/", stranger: true)["text"]]
    end
  end
end
