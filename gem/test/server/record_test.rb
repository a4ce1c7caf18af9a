# frozen_string_literal: true

require "helper"

# What a worker tells the front of what its pages were made of: RECORD, and what it announces on the journal's socket.
class RecordTest < Paceline::Test
  APP = <<~RUBY
    STREAM = Class.new do
      def each
        yield "a"
        # Behind what is sent at once.
        yield Time.now.year.to_s * 20_000
      end
    end
    FILE = Class.new do
      def each = yield("x")
      def to_path = File.join(__dir__, "config.ru")
    end
    run ->(env) {
      head = { "content-type" => "text/plain" }
      case env["PATH_INFO"]
      when "/header" then [200, head, [env["HTTP_X_TENANT"].to_s]]
      when "/large" then [200, head, [env["HTTP_X_TENANT"].to_s * 2_000_000]]
      when "/stream" then [200, head, STREAM.new]
      when "/file" then [200, head, FILE.new]
      when "/raise" then raise "wrong"
      when "/close" then [200, head, [Paceline::AutoCache.journal.close.to_s]]
      when "/leave"
        Paceline::AutoCache.leave
        names = -> { Thread.list.filter_map(&:name).grep(/journal/) }
        left = names.call
        Paceline::AutoCache.start
        [200, head, [left.inspect, names.call.inspect]]
      when "/fork"
        child = fork { exit!(Paceline::AutoCache.journal.joins? || Thread.list.size > 1 ? 1 : 0) }
        [200, head, [Process.wait2(child).last.exitstatus.to_s]]
      when "/cookies" then [200, head, [env["HTTP_COOKIE"].to_s]]
      end
    }
  RUBY

  # The ACK of the journal; helper does not load what only workers with a journal do.
  ACK = 0x71

  # Takes the connections of the preloader and the worker, and what each says first: the load of its code. It ends with the server.
  def join(server, journals)
    loop do
      journal = server.accept
      length, = journal.read(5).unpack("NC")
      journal.write([length, ACK].pack("NC") + (said = journal.read(length)))
      journals << [said.delete("\0"), journal]
    end
  rescue IOError
    nil
  end

  # A worker of the app that has joined: yields its channel, and a queue of what joins, by the load of its code, with its connection.
  def recorded(connected: true, **settings)
    in_tmpdir("config.ru" => APP) do |dir|
      path = File.join(dir, "journal.sock")
      server = UNIXServer.new(path) if connected
      journals = Thread::Queue.new
      joining = Thread.new { join(server, journals) } if connected
      front = FakeFront.new(root: dir, env: { "PACELINE_AUTO_CACHE" => path }, **settings)
      loaded = front.await_start
      assert_equal F::LOADED, loaded.type, loaded.pairs.inspect
      worker = front.fork_worker
      worker.await(F::READY)
      yield worker.channels[1], journals
    ensure
      front&.stop
      server&.close
      joining&.join
      journals.pop.last.close until journals.nil? || journals.empty?
    end
  end

  def ask(channel, path, env = {})
    channel.send(F::REQUEST, FakeFront.request({ "PATH_INFO" => path }.merge(env)))
    FakeFront.answer(channel)
  end

  def test_a_record_comes_before_what_ends_the_response
    recorded do |channel|
      header = ask(channel, "/header", "HTTP_X_TENANT" => "a")
      assert_equal [[F::RECORD, F::RESPONSE], "a"], [header.types, header.body]
      assert_match(/\0V\0config\.ru:\d+\0header\0x-tenant\0\0/, header.record)
      assert_match(/\AV\0\0request\0release\0\d+-\d+\0/, header.record)
      large = ask(channel, "/large", "HTTP_X_TENANT" => "a")
      assert_equal [F::RECORD, F::HEAD], large.types.first(2)
      stream = ask(channel, "/stream")
      assert_equal [F::RECORD, F::END_], (stream.types - [F::IDLE]).last(2)
      assert_match(/\0W\0config\.ru:\d+\0\d{13}\0/, stream.record)
      assert_equal [F::RECORD, F::HEAD, F::FILE], ask(channel, "/file").types.first(3)
    end
  end

  def test_requests_without_a_record
    recorded do |channel|
      assert_nil ask(channel, "/header", "REQUEST_METHOD" => "POST").record
      assert_nil ask(channel, "/raise").record
    end
  end

  def test_cookies_that_are_read_as_a_header
    recorded do |channel|
      assert_match(/\0V\0config\.ru:\d+\0cookie\0\*\0\0/, ask(channel, "/cookies", "HTTP_COOKIE" => "a=1").record)
    end
  end

  # Within a second, and without a request.
  def test_a_process_that_has_lost_its_connection_joins_again
    recorded do |channel, journals|
      joined = Array.new(2) { journals.pop }
      assert_match(/\A \d+-\d+\z/, joined.map(&:first).join(" "), "the preloader and the worker")
      joined.each { |_, connection| connection.close }
      again = Array.new(2) { Timeout.timeout(FakeFront::LIMIT) { journals.pop } }
      assert_equal joined.map(&:first), again.map(&:first).sort
      ask(channel, "/close")
      assert_equal joined.last.first, Timeout.timeout(FakeFront::LIMIT) { journals.pop }.first
      again.each { |_, connection| connection.close }
    end
  end

  def test_a_process_that_is_forked_from_has_left
    recorded do |channel, journals|
      names = "[\"paceline journal\"]"
      assert_equal "[]#{names}", ask(channel, "/leave").body
      assert_equal "0", ask(channel, "/fork").body, "a child serves nothing, and joins nothing"
      journals.pop.last.close until journals.empty?
    end
  end

  def test_workers_that_load_the_code_by_themselves_say_so
    recorded(preload: "0") do |_, journals|
      assert_match(/\A\d+-\d+-own\z/, journals.pop.first)
    end
  end

  def test_without_a_front_that_hears_of_writes_nothing_is_recorded
    recorded(connected: false) do |channel|
      answer = ask(channel, "/header", "HTTP_X_TENANT" => "a")
      assert_equal [[F::RESPONSE], "a"], [answer.types, answer.body]
    end
  end
end
