# frozen_string_literal: true

require "helper"

# What is recorded of requests of a Rails application, and which of its writes are announced. Each test in a process of its own.
class AutoCacheRailsTest < Paceline::Test
  HERE = %w[rails sqlite3 rack-test].all? { |name| Gem::Specification.find_all_by_name(name).any? }

  def setup
    skip "Rails is not here" unless HERE
  end

  def shop
    Dir.mktmpdir do |folder|
      ENV["FOLDER"] = folder
      require "auto_cache/support/shop"
      Author.create!(id: 1, name: "Ann")
      Post.create!(id: 1, title: "First", author_id: 1)
      visitor = Visitor.new
      # The first request of each kind reads the schema, too.
      visitor.ask("/posts/1")
      yield visitor
      assert_nil Paceline::AutoCache.recording
    end
  end

  # Entries of a letter, with the file of their place.
  def entries(recording, letter)
    found = []
    recording.each { |*fields, place| found << [*fields.drop(1), place[/[\w.]+(?=:\d+\z)/]] if fields.first == letter }
    found
  end

  # Values of the request that the application reads by a line of its own.
  def named(recording) = entries(recording, "V").select(&:last)

  def test_reads_of_the_database
    return if apart

    shop do |visitor|
      sql, values, place = entries(visitor.ask("/posts/1"), "S").first
      assert_match(/\ASELECT "posts"\.\* FROM "posts" WHERE "posts"\."id" = \? LIMIT \?\z/, sql)
      assert_equal [[1, 1], "shop.rb"], [values, place]
      assert_equal 1, entries(visitor.ask("/counted"), "S").size
      assert_match(/JOIN "posts"/, entries(visitor.ask("/joined"), "S").dig(0, 0))
      assert_equal ["SELECT title FROM posts WHERE id = 1", [], "shop.rb"], entries(visitor.ask("/raw"), "S").find { |text,| text.include?("title") }

      recording = visitor.ask("/visit")
      assert recording.wrote
      recording = visitor.ask("/posts/1")
      refute recording.wrote
      assert_nil recording.untracked_because
    end
  end

  def test_a_page_that_reads_nothing
    return if apart

    shop do |visitor|
      visitor.ask("/nothing")
      recording = visitor.ask("/nothing", "HTTP_ACCEPT_LANGUAGE" => "de", "HTTP_USER_AGENT" => "x")
      # The format of every answer of Rails.
      found = []
      recording.each { |*fields, _| found << fields }
      assert_equal [["V", "header", "x-requested-with", ""], ["V", "request", "accept", ""]], found.sort
      found.clear
      visitor.ask("/nothing", "HTTP_X_REQUESTED_WITH" => "XMLHttpRequest").each { |*fields, _| found << fields }
      assert_includes found, ["V", "header", "content-type", ""]
    end
  end

  def test_the_cookie_that_is_the_session
    return if apart

    shop do |visitor|
      %w[/whoami /form].each { |path| assert_equal [["_shop", "browser", nil]], entries(visitor.ask(path), "C"), path }
      assert_empty entries(visitor.ask("/nothing"), "C")
      visitor.get("/fill")
      assert_equal "changes session.items", visitor.ask("/add").untracked_because
    end
  end

  def test_a_session_that_rails_has_emptied
    return if apart

    shop do |visitor|
      visitor.get("/login?id=7")
      recording = visitor.ask("/unverified")
      assert_equal ["nobody", nil], [visitor.last_response.body, recording.untracked_because]
      assert_empty entries(recording, "V").select { |source,| source == "session" }
      assert_includes entries(visitor.ask("/whoami"), "V").map { |entry| entry.first(2) }, %w[session user_id]
    end
  end

  def test_an_entry_of_the_cache_that_expires
    return if apart

    shop do |visitor|
      visitor.ask("/brief")
      assert_equal "reads an entry of Rails.cache that expires", visitor.ask("/brief").untracked_because
      visitor.ask("/cached")
      assert_nil visitor.ask("/cached").untracked_because
    end
  end

  def test_reads_of_the_request
    return if apart

    shop do |visitor|
      recording = visitor.ask("/locale")
      assert_equal [["cookie", "locale", "", "shop.rb"], ["header", "x-tenant", "", "shop.rb"]], named(recording)
      assert_equal [["cookie", "banner", "", "shop.rb"]], named(visitor.ask("/dropped")), "only who has it loses it"
      recording = visitor.ask("/login")
      assert_equal "writes the session", recording.untracked_because

      absent = named(visitor.ask("/whoami"))
      assert_equal [["session", "user_id", "", "shop.rb"]], absent
      visitor.get("/login?id=7")
      seven = named(visitor.ask("/whoami"))
      visitor.get("/login?id=8")
      eight = named(visitor.ask("/whoami"))
      assert_equal 3, [absent, seven, eight].uniq.size
      assert_equal [64, 64], [seven[0][2].size, eight[0][2].size]
    end
  end

  # Rails takes it for its log before the application does, and keeps it.
  def test_the_address_of_the_client
    return if apart

    shop do |visitor|
      read = [%w[request address], %w[header x-forwarded-for], %w[header client-ip], %w[header forwarded]]
      assert_equal(read.map { |one| [*one, "", "shop.rb"] }, named(visitor.ask("/where")))
    end
  end

  # Rails asks for the browser there, and no line of the application.
  def test_a_route_with_a_condition
    return if apart

    shop do |visitor|
      visitor.ask("/layout", "HTTP_USER_AGENT" => "Mozilla/5.0 (iPhone)")
      assert_equal "small", visitor.last_response.body
      recording = visitor.ask("/layout", "HTTP_USER_AGENT" => "Mozilla/5.0 (X11)")
      assert_equal "large", visitor.last_response.body
      assert_includes entries(recording, "V").map { |entry| entry.first(2) }, %w[header user-agent]
    end
  end

  def test_work_of_other_threads
    return if apart

    shop do |visitor|
      assert_equal "hands work to another thread", visitor.ask("/promised").untracked_because
      assert_match(/\Ais made by a thread of its own/, visitor.ask("/live").untracked_because)
    end
  end

  def test_a_file_that_is_sent
    return if apart

    shop { |visitor| assert_includes entries(visitor.ask("/sent"), "F").map(&:first), File.join(FOLDER, "notice.txt") }
  end

  def test_the_name_of_the_session
    return if apart

    shop { |visitor| assert_equal "reads the session's id", visitor.ask("/known").untracked_because }
  end

  def test_a_list_of_all_headers
    return if apart

    shop do |visitor|
      %w[/listed /copied /encoded].each do |path|
        recording = visitor.ask(path)
        assert_equal "reads all headers", recording.untracked_because, path
        assert_equal [["reads all headers", "shop.rb"]], entries(recording, "U"), path
      end
      assert_nil visitor.ask("/locale").untracked_because, "two by their names"
    end
  end

  def test_reads_of_what_is_outside
    return if apart

    shop do |visitor|
      assert_equal [["Time.now", "shop.rb"]], entries(visitor.ask("/clock"), "M").uniq
      assert_equal [["Time.now", "shop.rb"]], entries(visitor.ask("/written"), "M").uniq, "Time.new"
      dated = visitor.ask("/dated")
      assert_empty entries(dated, "M")
      assert_equal ["shop.rb"], entries(dated, "W").map(&:last)
      assert_equal [["Array#sample", "shop.rb"]], entries(visitor.ask("/chance"), "M")
      assert_equal [[File.join(FOLDER, "notice.txt"), "shop.rb"]], entries(visitor.ask("/file"), "F")
      missed = visitor.ask("/cached")
      assert_equal [["posts/all"], 1], [entries(missed, "K").map(&:first), entries(missed, "S").size]
      hit = visitor.ask("/cached")
      assert_equal [["posts/all"], 0], [entries(hit, "K").map(&:first), entries(hit, "S").size]
      assert_equal "starts a thread", visitor.ask("/thread").untracked_because
      # Read while the body is sent.
      sql, _, place = entries(visitor.ask("/streamed"), "S").last
      assert_equal ["SELECT COUNT(*) FROM \"posts\"", "shop.rb"], [sql, place]
      assert_equal "a1", visitor.last_response.body
    end
  end

  def test_a_moment_in_a_statement
    return if apart

    shop do |visitor|
      soon = Time.at(Time.now.to_i + 1000, 123_456, :usec)
      ask = ->(name) { visitor.ask("/published?as=#{name}") }
      PLAIN.each_key { |name| assert_empty entries(ask.call(name), "M") + entries(ask.call(name), "W"), name }
      [soon + 5, soon, Time.at(1000)].each { |time| Post.create!(title: "x", published_at: time) }
      PLAIN.each_key do |name|
        recording = ask.call(name)
        assert_equal [[(soon.to_r * 1000).floor, "shop.rb"]], entries(recording, "W"), name
        assert_empty entries(recording, "M"), name
        assert_nil recording.untracked_because
        assert_equal 1, entries(recording, "S").size, "the question for the next time is none of the page's"
      end
      ODD.each_key { |name| assert_equal [["Time.now", "shop.rb"]], entries(ask.call(name), "M"), name }
      Post.where(published_at: soon).update_all("published_at = '2999-12-31T00:00'")
      Post.where(published_at: soon + 5).delete_all
      assert_equal [["Time.now", "shop.rb"]], entries(ask.call("plain"), "M"), "a time that Active Record has not written"
    end
  end

  def test_a_session_that_is_told_what_it_says
    return if apart

    shop do |visitor|
      assert_equal "writes the session", visitor.ask("/seen").untracked_because
      recording = visitor.ask("/seen")
      assert_nil recording.untracked_because
      assert_equal ["session", "seen"], entries(recording, "V").map { |one| one.first(2) }.find { |source,| source == "session" }
      assert_equal "writes the session", visitor.ask("/seen?as=no").untracked_because
      assert_nil visitor.ask("/seen?as=no").untracked_because
      assert_equal "writes the session", visitor.ask("/seen").untracked_because
      assert_equal "changes session.seen", visitor.ask("/grown").untracked_because
      recording = visitor.ask("/forgotten")
      assert_nil recording.untracked_because
      assert_includes entries(recording, "V").map { |one| one.first(3) }, ["session", "return_to", ""]
    end
  end

  # In a template, and in a line of a controller.
  def test_numbers_of_the_clock
    return if apart

    shop do |visitor|
      at = Time.now.to_i + 1000
      recording = visitor.ask("/aged?at=#{at}")
      assert_equal ["new", []], [visitor.last_response.body, entries(recording, "M")]
      assert_in_delta((at + 5) * 1000, entries(recording, "W").dig(0, 0), 1)
      recording = visitor.ask("/lately")
      assert_equal ["false", [], []], [visitor.last_response.body, entries(recording, "M"), entries(recording, "W")]
      assert_equal [["Time.now", "shop.rb"]], entries(visitor.ask("/written"), "M")
    end
  end

  def test_tokens_are_places_of_the_page
    return if apart

    shop do |visitor|
      visitor.ask("/form")
      recording = visitor.ask("/form")
      assert_nil recording.untracked_because
      assert_empty entries(recording, "M")
      tokens = entries(recording, "T")
      assert_equal 2, tokens.size
      assert_equal [["", ""], ["/posts", "post"]], tokens.map { |token| token.first(2) }.sort
      secret = entries(recording, "P").dig(0, 0).unpack1("m0")
      assert_equal 32, secret.bytesize
      # As the front finds them: the second half without the mask of the first is a token of this secret.
      found = visitor.last_response.body.scan(/[\w-]{86}/).map { |text| text.tr("-_", "+/").unpack1("m").unpack("a32a32") }
      plain = found.map { |pad, masked| pad.bytes.zip(masked.bytes).map { |one, other| one ^ other }.pack("C*") }
      expected = ["!real_csrf_token", "/posts#post"].map { |text| OpenSSL::HMAC.digest("SHA256", secret, text) }
      assert_equal expected.sort, plain.sort
    end
  end

  def test_the_form_that_the_front_reads
    return if apart

    shop do |visitor|
      wire = visitor.ask("/counted").to_wire
      assert_match(/(?:\A|\0)S\0shop\.rb:\d+\0SELECT COUNT[^\0]+\0\x31\0i1\0/, wire)
      assert wire.end_with?("\0")
      schema = Paceline::AutoCache::Schema.of(ActiveRecord::Base.connection)
      assert schema.start_with?("D\0sqlite\0")
      refute_includes schema, "sqlite_sequence"
      assert_includes schema, "T\0posts\0C\0id\0INTEGER\0?\0C\0title\0varchar\0tuntitled\0C\0author_id\0INTEGER\0n\0C\0views\0INTEGER\0i0\0"
      assert_includes schema, "X\0authors\0posts\x000\0"
    end
  end
end
