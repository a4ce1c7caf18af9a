# frozen_string_literal: true

require "session/support/backends"
begin
  require "rack"
  require "rack/lint"
  require "rack/mock"
  require "paceline/session"
rescue LoadError
  # Skipped below.
end

# Rack::Session::Paceline under Rack's own specification of a session store (rack-session's test/spec_session_pool.rb), case by case, and what is asked of it
# besides. Left out: ids that are kept in the clear by old versions, which this one never did.
class SessionRackTest < Minitest::Test
  extend SessionBackends
  include SessionBackends::Looks

  KEY = "rack.session"
  ID = /#{KEY}=([0-9a-fA-F]+);/.freeze

  COUNT = lambda do |env|
    env["rack.session"]["counter"] ||= 0
    env["rack.session"]["counter"] += 1
    [200, { "content-type" => "text/plain" }, [env["rack.session"].to_hash.inspect]]
  end
  NOTHING = ->(_env) { [200, { "content-type" => "text/plain" }, ["Nothing"]] }
  READ = ->(env) { [200, { "content-type" => "text/plain" }, [env["rack.session"].to_hash.inspect]] }

  def setup
    skip "Rack is not here" unless defined?(Rack::Session::Paceline)
  end

  # The app with sessions, as a client sees it.
  def client(store, app = COUNT, **options)
    Rack::MockRequest.new(Rack::Session::Paceline.new(Rack::Lint.new(app), { store: store }.merge(options)))
  end

  # Sets an option of the session for the request, then counts.
  def with(option)
    lambda do |env|
      env["rack.session.options"][option] = true
      COUNT.call(env)
    end
  end

  def inspected(**values) = values.transform_keys(&:to_s).inspect

  on_each("creates_a_new_cookie") do |store|
    answer = client(store).get("/")
    assert_match ID, answer["Set-Cookie"]
    assert_match(/HttpOnly/i, answer["Set-Cookie"])
    assert_equal inspected(counter: 1), answer.body
  end

  on_each("determines_session_from_a_cookie") do |store|
    client = client(store)
    cookie = client.get("/")["Set-Cookie"]
    assert_equal inspected(counter: 2), client.get("/", "HTTP_COOKIE" => cookie).body
    assert_equal inspected(counter: 3), client.get("/", "HTTP_COOKIE" => cookie).body
  end

  on_each("survives_nonexistent_cookies_and_adopts_none") do |store|
    answer = client(store).get("/", "HTTP_COOKIE" => "#{KEY}=#{"a" * 64}")
    assert_equal inspected(counter: 1), answer.body
    refute_equal "a" * 64, answer["Set-Cookie"][ID, 1]
    ["", "%00", "%FF%FE", "x" * 3000, "../../etc"].each do |odd|
      assert_equal inspected(counter: 1), client(store).get("/", "HTTP_COOKIE" => "#{KEY}=#{odd}").body
    end
    assert_equal inspected(counter: 1), client(store, cookie_only: false).get("/?#{KEY}[a]=1").body
  end

  on_each("does_not_send_the_same_session_id_if_it_did_not_change") do |store|
    client = client(store)
    first = client.get("/")
    cookie = first["Set-Cookie"][ID]
    assert_equal inspected(counter: 1), first.body
    2.upto(3) do |number|
      answer = client.get("/", "HTTP_COOKIE" => cookie)
      assert_nil answer["Set-Cookie"]
      assert_equal inspected(counter: number), answer.body
      assert_equal 1, count(store)
    end
  end

  on_each("deletes_cookies_with_drop_option") do |store|
    first = client(store).get("/")
    cookie = first["Set-Cookie"]
    assert_equal 1, count(store)
    dropped = client(store, with(:drop)).get("/", "HTTP_COOKIE" => cookie)
    assert_nil dropped["Set-Cookie"]
    assert_equal inspected(counter: 2), dropped.body
    assert_equal 0, count(store)
    third = client(store).get("/", "HTTP_COOKIE" => cookie)
    refute_equal cookie[ID], third["Set-Cookie"][ID]
    assert_equal inspected(counter: 1), third.body
    assert_equal 1, count(store)
  end

  on_each("provides_new_session_id_with_renew_option") do |store|
    cookie = client(store).get("/")["Set-Cookie"]
    renewed = client(store, with(:renew)).get("/", "HTTP_COOKIE" => cookie)
    fresh = renewed["Set-Cookie"]
    refute_equal cookie[ID], fresh[ID]
    assert_equal inspected(counter: 2), renewed.body
    assert_equal 1, count(store)
    assert_equal inspected(counter: 3), client(store).get("/", "HTTP_COOKIE" => fresh).body
    assert_equal inspected(counter: 1), client(store).get("/", "HTTP_COOKIE" => cookie).body
    assert_equal 2, count(store)
  end

  on_each("renews_also_what_nobody_looked_at") do |store|
    cookie = client(store).get("/")["Set-Cookie"]
    renew = ->(env) { env["rack.session.options"][:renew] = true and NOTHING.call(env) }
    # Rack::Lint would look at it.
    plain = Rack::MockRequest.new(Rack::Session::Paceline.new(renew, store: store))
    fresh = plain.get("/", "HTTP_COOKIE" => cookie)["Set-Cookie"]
    refute_equal cookie[ID], fresh[ID]
    assert_equal inspected(counter: 2), client(store).get("/", "HTTP_COOKIE" => fresh).body
    assert_nil client(store, renew).get("/")["Set-Cookie"]
  end

  on_each("destroys_and_starts_anew") do |store|
    destroy = lambda do |env|
      env["rack.session"].destroy
      env["rack.session"]["new"] = 1 if env["PATH_INFO"] == "/new"
      READ.call(env)
    end
    cookie = client(store).get("/")["Set-Cookie"]
    fresh = client(store, destroy).get("/new", "HTTP_COOKIE" => cookie)
    refute_equal cookie[ID], fresh["Set-Cookie"][ID]
    assert_equal 1, count(store)
    assert_nil client(store, destroy).get("/", "HTTP_COOKIE" => fresh["Set-Cookie"])["Set-Cookie"]
    assert_equal 0, count(store)
  end

  # Destroyed, although the app asked for a new id as well: nothing of it is kept, nor of what another request has put into it.
  on_each("what_is_destroyed_is_not_renewed") do |store|
    [true, false].each do |to_the_end|
      cookie = nil
      both = lambda do |env|
        env["rack.session"]["counter"]
        client(store, ->(other) { (other["rack.session"]["other"] = 1) && READ.call(other) }).get("/", "HTTP_COOKIE" => cookie)
        env["rack.session.options"][:renew] = true
        env["rack.session"].destroy
        env["rack.session.options"][:renew] = to_the_end
        env["rack.session"]["new"] = 1
        READ.call(env)
      end
      cookie = client(store).get("/")["Set-Cookie"]
      fresh = client(store, both).get("/", "HTTP_COOKIE" => cookie)["Set-Cookie"]
      assert_equal inspected(new: 1), client(store, READ).get("/", "HTTP_COOKIE" => fresh).body
    end
  end

  # By whoever calls the store himself.
  on_each("an_id_that_nobody_made_is_not_written") do |store|
    rack = Rack::Session::Paceline.new(COUNT, store: store)
    unknown = Rack::Session::SessionId.new("f" * 64)
    assert_equal false, rack.write_session(Rack::Request.new({}), unknown, { "a" => 1 }, {})
    assert_equal 0, count(store)
    known = Rack::Session::SessionId.new(client(store).get("/")["Set-Cookie"][ID, 1])
    assert_equal known, rack.write_session(Rack::Request.new({}), known, { "a" => 1 }, {})
    assert_equal [known, { "a" => 1 }], rack.find_session(Rack::Request.new({}), known)
    assert_nil rack.delete_session({}, known, { drop: true })
    assert_equal 0, count(store)
  end

  on_each("omits_cookie_with_defer_option") do |store|
    answer = client(store, with(:defer)).get("/")
    assert_nil answer["Set-Cookie"]
    assert_equal inspected(counter: 1), answer.body
    assert_equal 1, count(store)
  end

  on_each("saves_nothing_with_skip_option") do |store|
    assert_nil client(store, with(:skip)).get("/")["Set-Cookie"]
    assert_equal 0, count(store)
  end

  on_each("passes_through_cookie_options") do |store|
    assert_match(/SameSite=None/i, client(store, same_site: :none).get("/")["Set-Cookie"])
    assert_match(/SameSite=Lax/i, client(store, same_site: ->(_request, _response) { :lax }).get("/")["Set-Cookie"])
    assert_nil client(store, secure: true).get("/")["Set-Cookie"]
    assert_match(/; secure/i, client(store, secure: true).get("https://beer.test/")["Set-Cookie"])
    cookie = client(store, key: "mine", path: "/beers", domain: "beer.test", expire_after: 60).get("/")["Set-Cookie"]
    assert_match(%r{\Amine=\h{64}; domain=beer\.test; path=/beers; (?:max-age=60; )?expires=}i, cookie)
    assert_match(/=\h{32};/, client(store, sidbits: 64).get("/")["Set-Cookie"])
  end

  on_each("no_cookie_if_the_session_was_not_written") do |store|
    [NOTHING, READ].each do |app|
      assert_nil client(store, app).get("/")["Set-Cookie"]
      assert_nil client(store, app, expire_after: 3600).get("/")["Set-Cookie"]
      assert_nil client(store, app).get("/", "HTTP_COOKIE" => "#{KEY}=unknown")["Set-Cookie"]
    end
    assert_equal 0, count(store) if redis?(store)
    refute_path_exists store unless redis?(store)
  end

  on_each("a_cookie_with_a_new_date_if_expire_after_is_set") do |store|
    assert client(store, NOTHING, expire_after: 3600).get("/", "rack.session" => { "not" => "empty" })["Set-Cookie"]
    cookie = client(store, expire_after: 3600).get("/")["Set-Cookie"]
    assert_equal cookie[ID], client(store, NOTHING, expire_after: 3600).get("/", "HTTP_COOKIE" => cookie)["Set-Cookie"][ID]
  end

  ACCOUNT = lambda do |env|
    session = env["rack.session"]
    case env["PATH_INFO"]
    when "/login" then session[:user_id] = 1
    when "/logout"
      raise "User not logged in" if session[:user_id].nil?

      session.delete(:user_id)
      session.options[:renew] = true
    when "/slow" then Fiber.yield
    when "/slow-note"
      session["note"] = session["user_id"]
      Fiber.yield
    when "/slow-rotate"
      session["user_id"]
      Fiber.yield
      session.options[:renew] = true
    end
    READ.call(env)
  end

  # Of CVE-2025-46336.
  on_each("does_not_allow_session_id_to_be_reused") do |store|
    client = client(store, ACCOUNT)
    %w[/slow /slow-note /slow-rotate].each do |path|
      login = client.get("/login")["Set-Cookie"]
      slow = Fiber.new { client.get(path, "HTTP_COOKIE" => login) }
      slow.resume
      assert_equal inspected(user_id: 1), client.get("/", "HTTP_COOKIE" => login).body
      logout = client.get("/logout", "HTTP_COOKIE" => login)["Set-Cookie"]
      refute_equal login[ID], logout[ID]
      late = slow.resume
      assert_equal "{}", client.get("/", "HTTP_COOKIE" => login).body, path
      assert_equal "{}", client.get("/", "HTTP_COOKIE" => late["Set-Cookie"].to_s).body, path
    end
  end

  on_each("merges_what_requests_change_at_the_same_time") do |store|
    slow = lambda do |env|
      env["rack.session"]["counter"]
      env["rack.session"] = env["rack.session"].dup
      Fiber.yield
      env["rack.session"][env["PATH_INFO"]] = true
      COUNT.call(env)
    end
    cookie = client(store).get("/")["Set-Cookie"]
    client = client(store, slow)
    requests = Array.new(7) { |number| Fiber.new { client.get("/#{number}", "HTTP_COOKIE" => cookie) } }
    requests.each(&:resume)
    requests.reverse_each { |request| assert_includes request.resume.body, inspected(counter: 2)[1..-2] }
    found = client(store, READ).get("/", "HTTP_COOKIE" => cookie).body
    assert_equal 8, found.count(",") + 1, found
  end

  def test_ids_that_can_be_guessed_are_refused
    skip "there is no store without the native part" unless Paceline::Native
    assert_match(/secure_random/, assert_raises(ArgumentError) { client("/tmp/none", secure_random: nil) }.message)
    assert_match(/sidbits/, assert_raises(ArgumentError) { client("/tmp/none", sidbits: 32) }.message)
    assert_match(/store: must be the path/, assert_raises(ArgumentError) { client(nil) }.message)
  end
end
