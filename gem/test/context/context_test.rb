# frozen_string_literal: true

require "helper"
require "paceline/context"

# The middleware without Rails: what the application knows within a request, and that nothing is left of it afterwards.
class ContextTest < Minitest::Test
  # A body with the methods of its own that are given.
  class Pieces
    def initialize(*pieces, &on_close)
      @pieces = pieces
      @on_close = on_close
    end

    def each(&block) = @pieces.each { |piece| block.call(piece.respond_to?(:call) ? piece.call : piece) }
    def close = @on_close&.call
  end

  def setup
    Paceline::Context.user_from
  end

  def teardown
    refute_predicate current, :active?, "a context is left in the thread"
    Paceline::Context.user_from
  end

  def current = Paceline.current

  # Calls the app in the block through the middleware.
  def ask(env = {}, &app)
    Paceline::Context.new(app).call(env)
  end

  def test_who_asks_is_known_within_and_unknown_afterwards
    within = nil
    status, _, body = ask("REMOTE_USER" => "ann", "HTTP_X_REQUEST_ID" => "ab12") do
      current[:tenant] = "north"
      within = [current.user.to_s, current.user_label, current.request_id, current[:tenant], current.values]
      [200, {}, ["hello"]]
    end

    assert_equal ["ann", "ann", "ab12", "north", { tenant: "north" }], within
    assert_equal [200, ["hello"]], [status, body]
    assert_equal [nil, nil, nil, nil, nil, {}], [current.user, current.user_label, current.identity, current.request_id, current[:tenant], current.values]
  end

  def test_nothing_can_be_set_outside
    error = assert_raises(Paceline::Context::NoRequest) { current[:tenant] = 1 }
    assert_includes error.message, "Paceline.current.run"
    assert_raises(Paceline::Context::NoRequest) { current.user = "ann" }
  end

  def test_the_user_is_found_when_first_asked_and_then_kept
    asked = []
    Paceline::Context.user_from { |request| asked << request.env["PATH_INFO"]; "user #{asked.size}" }
    ask("PATH_INFO" => "/a") { [200, {}, []] }
    assert_empty asked

    users = nil
    ask("PATH_INFO" => "/b") { users = [current.user, current.user]; [200, {}, []] }
    assert_equal ["user 1", "user 1"], users
    assert_equal ["/b"], asked
  end

  def test_nobody_is_asked_for_again_and_a_login_counts_from_there_on
    session = {}
    Paceline::Context.user_from { |request| request.env["rack.session"][:user] }
    seen = []
    ask("rack.session" => session) do
      seen << current.user
      session[:user] = "ann"
      seen << current.user
      current.user = "bob"
      seen << current.user
      current.user = nil
      seen << current.user << current.user_label
      [200, {}, []]
    end
    assert_equal [nil, "ann", "bob", nil, nil], seen
  end

  def test_a_resolver_that_asks_for_the_user_gets_nobody_and_what_it_raises_only_the_application_sees
    Paceline::Context.user_from { |_| current.user.nil? ? raise("no database") : "loop" }
    ask do
      assert_nil current.user_label
      assert_equal "no database", assert_raises(RuntimeError) { current.user }.message
      [200, {}, []]
    end
  end

  # As SQL comments ask, with each statement.
  def test_the_label_asks_a_resolver_once_and_the_server_each_time
    env = {}
    ask(env) { assert_nil current.user_label; env["REMOTE_USER"] = "ann"; assert_equal "ann", current.user_label; [200, {}, []] }

    asked = 0
    Paceline::Context.user_from { |request| asked += 1; request.env["REMOTE_USER"] }
    env = {}
    ask(env) do
      3.times { assert_nil current.user_label }
      env["REMOTE_USER"] = "ann"
      assert_equal [nil, "ann", "ann", 2], [current.user_label, current.user, current.user_label, asked]
      [200, {}, []]
    end
  end

  # As by a log tag.
  def test_who_asks_before_there_is_a_session_makes_none
    Paceline::Context.user_from { |request| request.session[:user] }
    env = {}
    ask(env) do
      assert_nil current.user
      refute_includes env, "rack.session"
      env["rack.session"] = { user: "ann" }
      assert_equal "ann", current.user
      [200, {}, []]
    end
  end

  def test_what_the_server_has_authenticated_is_an_identity
    ask("paceline.user" => { name: "ann@EXAMPLE.ORG", groups: %w[staff brewers], mechanism: "gssapi" }, "REMOTE_USER" => "ann") do
      assert_equal ["ann@EXAMPLE.ORG", %w[staff brewers], "gssapi"], [current.user.name, current.user.groups, current.user.mechanism]
      assert current.user.in?(:staff)
      refute current.user.in?("admins")
      [200, {}, []]
    end
    ask("REMOTE_USER" => "J\xC3\xB6rg\xFF".b) { assert_equal "J\u00f6rg\u{fffd}", current.user.to_s; [200, {}, []] }
    ask("REMOTE_USER" => "") { assert_nil current.user; [200, {}, []] }
  end

  def test_a_user_of_the_application_leaves_the_identity_as_it_is
    Paceline::Context.user_from { |request| Struct.new(:id, :login).new(42, request.env["REMOTE_USER"]) }
    ask("REMOTE_USER" => "ann") do
      assert_equal ["ann", "42", "ann"], [current.user.login, current.user_label, current.identity.name]
      [200, {}, []]
    end
  end

  def test_nothing_shows_the_user_by_itself
    env = { "REMOTE_USER" => "ann-smith" }
    ask(env) do
      current[:tenant] = "secret-tenant"
      shown = [current, env["paceline.context"], current.user].map(&:inspect).join + (begin; env["paceline.context"].nothing; rescue NoMethodError => e; e.message; end)
      refute_match(/ann-smith|secret-tenant/, shown)
      [200, {}, []]
    end
  end

  def test_a_request_without_an_id_gets_one_and_keeps_it
    env = {}
    ids = nil
    ask(env) { ids = [current.request_id, current.request_id]; [200, {}, []] }
    assert_match(/\A\h{8}-\h{4}-/, ids[0])
    assert_equal [ids[0], ids[0]], [ids[1], env["HTTP_X_REQUEST_ID"]]
    ask("HTTP_X_REQUEST_ID" => "a b\xFF\n*/\"c".b) { assert_equal "abc", current.request_id; [200, {}, []] }
    ask("HTTP_X_REQUEST_ID" => "theirs", "action_dispatch.request_id" => "rails") { assert_equal "rails", current.request_id; [200, {}, []] }
  end

  def test_the_body_is_within_until_it_is_closed
    users = []
    body = Pieces.new(-> { users << current.user.to_s; "piece" }) { users << "closed by #{current.user}" }
    body.define_singleton_method(:to_path) { "/srv/label.png" }
    _, _, wrapped = ask("REMOTE_USER" => "ann") { [200, {}, body] }

    assert_predicate current, :active?
    pieces = []
    wrapped.each { |piece| pieces << piece }
    wrapped.close
    assert_equal [["piece"], ["ann", "closed by ann"]], [pieces, users]
    refute_predicate current, :active?
    wrapped.close # Rack does, at times
    assert_equal "/srv/label.png", wrapped.to_path
    refute_respond_to wrapped, :to_ary
    refute_respond_to wrapped, :call
  end

  def test_a_body_that_fails_while_it_is_closed_ends_the_context
    _, _, body = ask { [200, {}, Pieces.new { raise "late" }] }
    assert_raises(RuntimeError) { body.close }
    refute_predicate current, :active?
  end

  def test_a_body_that_is_taken_as_an_array_is_closed
    list = Class.new(Array) { def close = @closed = true }
    _, _, body = ask { [200, {}, list.new(["a"])] }
    assert_respond_to body, :to_ary
    assert_equal ["a"], body.to_ary
    refute_predicate current, :active?

    # As one of Rails' that streams.
    closed = false
    none = Pieces.new("piece") { closed = true }
    none.define_singleton_method(:to_ary) { nil }
    _, _, body = ask { [200, {}, none] }
    assert_nil body.to_ary
    refute closed
    assert_equal ["piece"], body.enum_for(:each).to_a
    body.close
  end

  def test_a_body_that_writes_by_itself_is_within
    written = []
    _, _, body = ask("REMOTE_USER" => "ann") { [200, {}, ->(stream) { stream << current.user.to_s }] }
    refute_respond_to body, :each
    body.call(written)
    body.close
    assert_equal ["ann"], written
  end

  def test_a_body_that_another_thread_sends_is_within
    users = []
    _, _, body = ask("REMOTE_USER" => "ann") { [200, {}, Pieces.new(-> { users << current.user.to_s; "" })] }
    Thread.new { body.each(&:itself); body.close; users << current.user }.join
    assert_equal ["ann", nil], users
  end

  def test_an_exception_a_throw_and_a_killed_thread_end_it
    assert_raises(RuntimeError) { ask { raise "oops" } }
    refute_predicate current, :active?
    catch(:async) { ask { throw :async } }
    refute_predicate current, :active?

    scope = nil
    env = { "REMOTE_USER" => "ann" }
    inside = Thread::Queue.new
    thread = Thread.new { ask(env) { scope = env["paceline.context"]; inside << true; sleep } }
    inside.pop
    thread.kill.join
    assert_equal "#<Paceline::Context::Scope (ended)>", scope.inspect
    assert_nil scope.user
  end

  def test_a_connection_that_is_taken_over_ends_it
    ask("REMOTE_USER" => "ann") { [-1, {}, Pieces.new] }
    refute_predicate current, :active?
    env = {}
    ask(env) { env["rack.hijack_io"] = :socket; [200, {}, Pieces.new] }
    refute_predicate current, :active?

    users = []
    _, headers, = ask("REMOTE_USER" => "ann") { [200, { "rack.hijack" => ->(io) { users << [io, current.user.to_s] } }.freeze, [].freeze].freeze }
    headers["rack.hijack"].call(:socket)
    assert_equal [[:socket, "ann"]], users
  end

  def test_a_server_that_closes_no_body_ends_it_after_the_response
    %w[rack.response_finished rack.after_reply].each do |list|
      env = { list => [] }
      ask(env) { [200, {}, Pieces.new] }
      assert_predicate current, :active?
      env[list].each { |callback| list == "rack.after_reply" ? callback.call : callback.call(env, 200, {}, nil) }
      refute_predicate current, :active?
    end
  end

  def test_a_body_that_nobody_closes_is_not_the_next_requests
    ask("REMOTE_USER" => "ann") { [200, {}, Pieces.new] }
    ask("REMOTE_USER" => "bob") { assert_equal "bob", current.user.to_s; [200, {}, []] }
    assert_nil current.user
  end

  def test_a_request_within_a_request_has_its_own
    ask("REMOTE_USER" => "ann") do
      _, _, body = ask("REMOTE_USER" => "bob") { assert_equal "bob", current.user.to_s; [200, {}, Pieces.new(-> { current.user.to_s })] }
      assert_equal ["bob"], body.enum_for(:each).to_a
      body.close
      assert_equal "ann", current.user.to_s
      [200, {}, []]
    end
  end

  def test_the_middleware_twice_is_one_context
    env = { "REMOTE_USER" => "ann" }
    inner = Paceline::Context.new(->(_) { [200, {}, [current[:tenant]]] })
    response = ask(env) { current[:tenant] = "north"; inner.call(env) }
    assert_equal ["north"], response[2]
  end

  def test_fibers_have_it_and_threads_only_what_they_are_given
    ask("REMOTE_USER" => "ann") do
      current[:tenant] = "north"
      look = -> { [current.user&.to_s, current[:tenant]] }
      assert_equal %w[ann north], Fiber.new(&look).resume
      assert_equal %w[ann north], Enumerator.new { |list| list << look.call }.next
      assert_equal [nil, nil], Thread.new(&look).value
      assert_equal %w[ann north], Thread.new(&current.wrap(&look)).value
      assert_equal [nil, nil], Thread.new { Fiber.new(&look).resume }.value
      [200, {}, []]
    end
  end

  def test_what_a_thread_was_given_outlasts_the_request_and_what_it_sets_is_its_own
    go = Thread::Queue.new
    thread = nil
    ask("REMOTE_USER" => "ann", "HTTP_X_REQUEST_ID" => "ab12") do
      thread = Thread.new(&current.wrap { current[:tenant] = "south"; go.pop; [current.user.to_s, current.request_id, current[:tenant]] })
      current[:tenant] = "north"
      [200, {}, [current[:tenant]]]
    end
    go << true
    assert_equal %w[ann ab12 south], thread.value
    assert_nil current.wrap { current.user }.call
  end

  # As a pool's: made by one request, used by all.
  def test_a_thread_that_outlives_its_request_has_nothing_of_it
    work, found = Thread::Queue.new, Thread::Queue.new
    thread = nil
    fiber = nil
    ask("REMOTE_USER" => "ann") do
      thread = Thread.new { found << current.user while work.pop }
      fiber = Fiber.new { Fiber.yield current.user.to_s; current.user }
      assert_equal "ann", fiber.resume
      work << true
      assert_nil found.pop
      [200, {}, []]
    end
    work << true << nil
    assert_nil found.pop
    assert_nil fiber.resume
    thread.join
  end

  def test_run_gives_a_context_of_its_own_and_takes_it_back
    ask("REMOTE_USER" => "ann") do
      current[:tenant] = "north"
      within = current.run(user: "admin", tenant: "south") { [current.user, current.identity, current[:tenant], current.request_id] }
      assert_equal ["admin", nil, "south", nil], within
      assert_raises(RuntimeError) { current.run(user: "admin") { raise "oops" } }
      assert_nil current.run { current.user }
      assert_equal "ann", current.user.to_s
      [200, {}, []]
    end
  end

  # As by a server that serves each request in a fiber of its own, many in one thread.
  def test_requests_in_fibers_of_one_thread_are_apart
    seen = []
    fibers = %w[ann bob].map do |name|
      Fiber.new do
        ask("REMOTE_USER" => name) do
          2.times { seen << [name, current.user.to_s]; Fiber.yield }
          [200, {}, []]
        end
        seen << [name, current.user]
      end
    end
    3.times { fibers.each(&:resume) }
    assert_equal [%w[ann ann], %w[bob bob]] * 2 + [["ann", nil], ["bob", nil]], seen
  end

  def test_what_it_answers_is_by_the_rack_spec
    require "rack"
    require "rack/mock"
    require "rack/lint"
    body = Pieces.new("hello ", "world")
    [["hello world"], body].each do |answer|
      app = Rack::Lint.new(Paceline::Context.new(Rack::Lint.new(->(_) { [200, { "content-type" => "text/plain" }, answer] })))
      assert_equal "hello world", Rack::MockRequest.new(app).get("/").body
    end
  end

  def test_a_user_of_warden
    Paceline::Context.user_from { |request| request.env["warden"]&.user }
    ask("warden" => Struct.new(:user).new("ann")) { assert_equal "ann", current.user; [200, {}, []] }
    ask { assert_nil current.user; [200, {}, []] }
  end

  # A test of an application that calls it from within `run`.
  def test_a_request_within_run
    current.run(user: "tester") do
      _, _, body = ask("REMOTE_USER" => "ann") { [200, {}, Pieces.new(-> { current.user.to_s })] }
      assert_equal ["ann"], body.enum_for(:each).to_a
      body.close
      assert_equal "tester", current.user
    end
  end
end
