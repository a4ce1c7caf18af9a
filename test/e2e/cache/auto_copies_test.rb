# The automatic page cache in front of an application that knows its visitors in ways that no record sees: it reads copies of the env, in all
# forms that Ruby has, in a thread of its own, in an engine whose file is called like a logger's. An attacker without cookies, and one with
# cookies of his own, prove what they can; nobody sees another's page. And what depends on no visitor is shown to those with cookies as well.
require "json"
require "tmpdir"
require_relative "../support/asking"
require_relative "../support/scenario"

class CacheAutoCopiesTest < Minitest::Test
  include Scenario
  include Asking

  # Of `env`, all fields by which this application knows its visitors: a hash that has them, or their text.
  FORMS = {
    "merge" => "{}.merge(env)",
    "merge_bang" => "{}.merge!(env)",
    "hash" => "Hash[env]",
    "update" => "{}.update(env)",
    "replace" => "{}.replace(env)",
    "literal" => "{ **env }",
    "keywords" => "->(**all) { all.transform_keys(&:to_s) }.call(**env.transform_keys(&:to_sym))",
    "json" => "JSON.parse(JSON.generate(env))",
    "to_json" => "JSON.parse(env.to_json)",
    "marshal" => "Marshal.load(Marshal.dump(Hash[env].keep_if { |_, value| value.instance_of?(String) }))",
    "mock" => "Rack::MockRequest.env_for('/', env)",
    "yaml" => "YAML.dump(Hash[env].keep_if { |_, value| value.instance_of?(String) })",
    "pretty" => "PP.pp({}.merge(env), +'')",
    "shareable" => "Ractor.make_shareable(Hash[env].keep_if { |_, value| value.instance_of?(String) })",
    "dup" => "env.dup",
    "clone" => "env.clone",
    "to_a" => "env.to_a.to_h",
    "splat" => "[*env].to_h",
    "array" => "Array(env).to_h",
    "entries" => "env.entries.to_h",
    "each" => "{}.tap { |all| env.each { |name, value| all[name] = value } }",
    "each_pair" => "{}.tap { |all| env.each_pair { |name, value| all[name] = value } }",
    "each_entry" => "env.each_entry.to_h { |pair| pair }",
    "each_slice" => "env.each_slice(3).flat_map(&:to_a).to_h",
    "with_object" => "env.each_with_object({}) { |(name, value), all| all[name] = value }",
    "map" => "env.map { |name, value| [name, value] }.to_h",
    "lazy" => "env.lazy.map { |pair| pair }.to_a.to_h",
    "select" => "env.select { |name, _| name.start_with?('HTTP_') }",
    "reject" => "env.reject { |_, value| value.nil? }",
    "partition" => "env.partition { |name, _| name.start_with?('HTTP_') }.first.to_h",
    "group" => "env.group_by { |name, _| name }.transform_values { |pairs| pairs[0][1] }",
    "reduce" => "env.reduce({}) { |all, (name, value)| all.merge(name => value) }",
    "sorted" => "env.sort_by { |name, _| name }.to_h",
    "zip" => "env.keys.zip(env.values).to_h",
    "inspect" => "env.inspect",
    "text" => "\"\#{env}\"",
    "slice" => "env.slice('HTTP_COOKIE', 'HTTP_PRIVATE_TOKEN', 'HTTP_X_PERSON')",
    "proc" => "NAMES.to_h { |name| [name, [name].map(&env).first] }",
    "struct" => "OpenStruct.new({}.merge(env)).to_h.transform_keys(&:to_s)",
    "set" => "Set.new({}.merge(env)).to_h { |pair| pair }",
    "refinement" => "env.peek",
    "unbound" => "NAMES.to_h { |name| [name, Hash.instance_method(:[]).bind_call(env, name)] }",
    "unbound_fetch" => "NAMES.to_h { |name| [name, Hash.instance_method(:fetch).bind_call(env, name, nil)] }",
    "unbound_to_a" => "Hash.instance_method(:to_a).bind_call(env).to_h",
    "unbound_select" => "Hash.instance_method(:select).bind_call(env) { true }",
    "super_method" => "NAMES.to_h { |name| [name, Hash.instance_method(:[]).bind(env).call(name)] }",
    "reachable" => "ObjectSpace.reachable_objects_from(env).grep(String).grep(/user=[a-z]|token-[a-z]|person-[a-z]/).join(' ')",
    "fiber" => "Fiber.new { {}.merge(env) }.resume",
    "enumerator" => "Enumerator.new { |all| {}.merge(env).each { |pair| all << pair } }.take(200).to_h",
    "pool" => "POOL.ask(env)",
    "engine" => "Engine::Notifications.new.read(env)",
    "logging_engine" => "Engine::LogIn.new.read(env)"
  }.freeze
  # What the record does not see, so that the attack has something to win.
  UNSEEN = %w[merge hash unbound pool].freeze

  APP = <<~RUBY.freeze
    %w[rack json yaml pp set ostruct objspace].each { |name| require name }
    NAMES = %w[HTTP_COOKIE HTTP_PRIVATE_TOKEN HTTP_X_PERSON].freeze
    module Peeking
      refine(Hash) { def peek = NAMES.to_h { |name| [name, self[name]] } }
    end
    using Peeking
    %w[notifications log_in].each { |name| require File.join(File.read(File.join(__dir__, "engine")), "gems/engine-1.0/app/\#{name}") }

    # Threads that are there before the first request.
    class Pool
      def initialize = @asked = Queue.new
      def ask(env)
        @thread ||= Thread.new { loop { @asked.pop.then { |found, reply| reply << NAMES.to_h { |name| [name, found[name]] } } } }
        reply = Queue.new
        @asked << [env, reply]
        reply.pop
      end
    end
    POOL = Pool.new

    FORMS = {
    #{FORMS.map { |name, code| "  #{name.inspect} => ->(env) { #{code} }," }.join("\n")}
    }.freeze

    # In memory, where nobody sees what is written.
    CARTS = Hash.new(0)

    APPLICATION = ->(env) {
      _, kind, form, number = env["PATH_INFO"].split("/")
      if kind == "cart"
        owner = {}.merge(env)["HTTP_COOKIE"].to_s
        CARTS[owner] += 1 if env["REQUEST_METHOD"] == "POST"
        next [200, { "content-type" => "text/plain" }, ["\#{CARTS[owner]} in your cart"]]
      end
      found = kind == "copy" ? FORMS.fetch(form).call(env) : {}
      text = found.respond_to?(:values_at) ? found.values_at(*NAMES).compact.join(" ") : found.to_s
      who = text[/(?:user=|token-|person-)([a-z]+)/, 1] || "nobody"
      [200, { "content-type" => "text/plain" }, ["\#{number}: hello \#{who}"]]
    }
  RUBY

  ENGINE = "module Engine\n  class %s\n    def read(env) = %%w[HTTP_COOKIE HTTP_PRIVATE_TOKEN HTTP_X_PERSON].to_h { |name| [name, env[name]] }\n  end\nend\n".freeze

  VISITORS = {
    "ann" => { "Cookie" => "user=ann" }, "bob" => { "Cookie" => "theme=dark; user=bob" },
    "tom" => { "Private-Token" => "token-tom" }, "kim" => { "X-Person" => "person-kim" }
  }.freeze
  HIT = /\Apaceline; hit; .*detail=auto/

  def setup
    @engines = Dir.mktmpdir("paceline-engines-")
    write(@engines, "gems/engine-1.0/app/notifications.rb" => format(ENGINE, "Notifications"), "gems/engine-1.0/app/log_in.rb" => format(ENGINE, "LogIn"))
    @dir = app("config.ru" => "require_relative \"copies\"\nrun APPLICATION\n", "copies.rb" => APP, "engine" => @engines, "paceline.toml" => "[auto_cache]\nmode = \"serve\"\nverify = \"0%\"\n")
    # The page cache would have requests wait for each other.
    @server = serve(@dir, "-w", "1", "-t", "1", env: { "XDG_STATE_HOME" => File.join(@dir, "state") })
  end

  def teardown
    super
    FileUtils.rm_rf(@engines)
  end

  def stages
    sites = command_json(@server, "cache", "advise", "--json")["sites"]
    sites.values.flat_map { |site| site["routes"] }.to_h { |one| one.values_at("route", "stage") }
  end

  def hits?(answer) = HIT.match?(answer["cache-status"].to_s)

  # Each form by itself: its route is proven by the attacker, and then visitors come.
  def assert_nobody_sees_another(forms, &headers_of_attacker)
    Net::HTTP.start("127.0.0.1", @server.port, read_timeout: PATIENCE) do |http|
      asks = ->(path, headers) { http.get(path, headers).tap { |answer| assert_equal "200", answer.code, answer.body } }
      forms.each do |form|
        attacks = ->(nth, id) { asks.call("/copy/#{form}/#{id}", { "User-Agent" => "attacker #{nth % 2}" }.merge(headers_of_attacker.call(nth))) }
        310.times { |nth| assert_equal "1: hello nobody", attacks.call(nth, 1).body, form }
        # Known pages, and those that nobody has asked for yet: by their first visitor, by others, by the attacker, and once more.
        [1, 2, 3, 4, 5].each do |id|
          first = VISITORS.keys.rotate(id)
          first.each { |name| assert_equal "#{id}: hello #{name}", asks.call("/copy/#{form}/#{id}", VISITORS[name]).body, "#{form}: #{name}" }
          assert_equal "#{id}: hello nobody", attacks.call(id, id).body, form
          first.reverse_each { |name| assert_equal "#{id}: hello #{name}", asks.call("/copy/#{form}/#{id}", VISITORS[name]).body, "#{form}: #{name}" }
        end
      end
    end
  end

  def test_an_attacker_without_cookies_proves_nothing_of_visitors_with_them
    assert_nobody_sees_another(FORMS.keys) { {} }
    # It had a chance: where nobody sees what is read, a page differed.
    found = stages
    UNSEEN.each { |form| assert_equal "off", found["GET /copy/#{form}/*"], form }
  end

  def test_an_attacker_with_cookies_and_fields_of_his_own_proves_nothing_of_others
    own = ->(nth) { [{ "Cookie" => "user=#{nth}" }, { "Private-Token" => nth.to_s }, { "X-Person" => nth.to_s }][nth % 3] }
    assert_nobody_sees_another(UNSEEN, &own)
  end

  def test_what_depends_on_no_visitor_is_shown_to_those_who_bring_something
    Net::HTTP.start("127.0.0.1", @server.port, read_timeout: PATIENCE) do |http|
      eventually("the page to be a hit") do
        50.times { |nth| http.get("/plain/page/1", "User-Agent" => "browser #{nth % 2}") }
        hits?(http.get("/plain/page/1", "User-Agent" => "browser 0"))
      end
      VISITORS.each do |name, headers|
        asked = 0
        eventually("a hit for #{name}") do
          asked += 1
          answer = http.get("/plain/page/1", headers.merge("User-Agent" => "#{name}'s browser"))
          assert_equal "1: hello nobody", answer.body
          hits?(answer)
        end
        assert_operator asked, :>, 1, "the first answer is the application's"
      end
    end
  end

  def test_who_has_changed_something_is_asked_again
    Net::HTTP.start("127.0.0.1", @server.port, read_timeout: PATIENCE) do |http|
      own = { "Cookie" => "sid=ann", "User-Agent" => "ann's browser" }
      eventually("a hit for somebody with an empty cart") do
        50.times { |nth| http.get("/cart/own/1", "User-Agent" => "browser #{nth % 2}") }
        4.times { assert_equal "0 in your cart", http.get("/cart/own/1", own).body }
        hits?(http.get("/cart/own/1", own))
      end
      assert_equal "1 in your cart", http.post("/cart/own/1", "", own).body
      assert_equal "1 in your cart", http.get("/cart/own/1", own).body
      assert_equal "0 in your cart", http.get("/cart/own/1", "User-Agent" => "browser 0").body
    end
  end
end
