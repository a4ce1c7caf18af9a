# frozen_string_literal: true

# Rails' own cases for a session store (actionpack's test/dispatch/session/cache_store_test.rb), and those of ours that need Rails. Run by rails_test.rb in a process
# of its own: what it prints is minitest's.
ENV["RAILS_ENV"] = "test"
ENV["MT_NO_PLUGINS"] = "1"
ENV["RAISE"] = "1"
require "minitest/autorun"
require_relative "rails_app"
require "rails/test_help"

class RailsCases < ActionDispatch::IntegrationTest
  def app = SessionApp

  def sid = cookies["_shop"]

  def shown(path = "/show")
    get path
    response.body
  end

  def test_setting_and_getting_a_value
    get "/set?name=foo&value=bar"
    assert_response :success
    assert sid
    assert_equal '[["foo", "bar"]]', shown
  end

  def test_a_value_that_is_not_there
    assert_equal "[]", shown
    assert_nil sid
    get "/nothing"
    assert_nil sid
  end

  def test_the_value_is_gone_after_a_reset
    get "/set?name=foo&value=bar"
    old = sid
    get "/reset"
    refute_equal old, sid
    assert_equal '[["bar", "baz"]]', shown
    cookies["_shop"] = old
    assert_equal "[]", shown
  end

  def test_logout_leaves_nothing
    get "/login?user=ana"
    first = sid
    get "/login?user=ben"
    refute_equal first, sid
    assert_equal '[["user", "ben"]]', shown
    get "/logout"
    assert_equal "[]", shown
  end

  def test_the_id
    get "/set?name=foo&value=bar"
    first = sid
    assert_match(/\A\h{32}\z/, first)
    assert_equal first, shown("/id")
    get "/reset"
    refute_equal first, shown("/id")
  end

  def test_the_cookie_is_not_sent_again
    get "/count"
    assert response.headers["Set-Cookie"]
    get "/count"
    assert_nil response.headers["Set-Cookie"]
  end

  def test_session_fixation
    cookies["_shop"] = "0xhax"
    get "/count"
    refute_equal "0xhax", sid
    assert_equal "2", shown("/count")
    cookies["_shop"] = "0xhax"
    assert_equal "1", shown("/count")
  end

  def test_renewal
    get "/set?name=foo&value=bar"
    old = sid
    get "/renew"
    refute_equal old, sid
    assert_equal '[["foo", "bar"], ["renewed", true]]', shown
    cookies["_shop"] = old
    assert_equal "[]", shown
  end

  def test_flash
    get "/flash_notice"
    assert_equal '"Prost"', shown("/flashed")
    assert_equal "nil", shown("/flashed")
  end

  def test_forgery_protection
    ActionController::Base.allow_forgery_protection = true
    token = shown("/token")
    post "/post", params: { authenticity_token: token }
    assert_response :success
    assert_raises(ActionController::InvalidAuthenticityToken) { post "/post", params: { authenticity_token: "x" } }
  ensure
    ActionController::Base.allow_forgery_protection = false
  end

  def test_two_requests_of_one_session
    get "/count"
    read, go = Queue.new, Queue.new
    Object.const_set(:SLOW, -> { read.push(true) && go.pop })
    visitor = open_session
    visitor.cookies["_shop"] = sid
    slow = Thread.new { visitor.get("/slow") }
    read.pop
    get "/count"
    get "/set?name=foo&value=bar"
    go.push(true)
    slow.join
    assert_equal '[["count", 2], ["foo", "bar"], ["slow", 1]]', shown
    get "/logout"
  ensure
    Object.send(:remove_const, :SLOW)
  end

  def test_a_slow_request_after_the_logout
    get "/count"
    old = sid
    read, go = Queue.new, Queue.new
    Object.const_set(:SLOW, -> { read.push(true) && go.pop })
    visitor = open_session
    visitor.cookies["_shop"] = old
    slow = Thread.new { visitor.get("/slow") }
    read.pop
    get "/logout"
    go.push(true)
    slow.join
    cookies["_shop"] = old
    assert_equal "[]", shown
  ensure
    Object.send(:remove_const, :SLOW)
  end

  def test_too_large
    get "/large?bytes=1000"
    assert_response :success
    assert_match(/"report"/, assert_raises(Paceline::Session::TooLarge) { get "/large?bytes=1100000" }.message)
    get "/show"
    assert_operator response.body.size, :<, 2000
  end

  if ENV["SERIALIZER"] == "json" || ENV["STORE"].include?("://")
    def test_what_json_does_not_know
      assert_match(/session\["odd"\].*a Time/, assert_raises(Paceline::Session::NotSerializable) { get "/odd" }.message)
    end
  else
    # As Rails' own stores: a class that is loaded on demand is, one that is gone is an error of Rails', or Ruby's where Rails' loader asks for it.
    def test_a_class_that_is_not_loaded
      Object.const_set(:SessionThing, Struct.new(:name))
      get "/whole"
      assert_equal "Kölsch", shown("/thing")
      gone = Object.send(:remove_const, :SessionThing)
      assert_raises(ActionDispatch::Session::SessionRestoreError, NameError) { get "/show" }
      Object.define_singleton_method(:const_missing) { |name| name == :SessionThing ? const_set(name, gone) : super(name) }
      assert_equal "Kölsch", shown("/thing")
    end
  end

  def test_dates_of_cookie_and_session
    store = ActionDispatch::Session::PacelineStore.new(->(_env) {}, store: ENV.fetch("STORE"))
    assert_nil store.delete_session({}, Rack::Session::SessionId.new("0" * 32), { drop: true })
    assert store.delete_session({}, Rack::Session::SessionId.new("0" * 32), {})
    assert_nil store.find_session({}, nil)[1]["none"]
  end
end
