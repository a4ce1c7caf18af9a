# frozen_string_literal: true

require_relative "support/shadow_case"
require "paceline/native"

# Sessions in files cost a shadow's request what they cost a visitor's, and the files stay as they are.
class ShadowSessionsTest < ShadowCase
  # `/`: what the session of the cookie has, and then one more. `/transactions`: where and how often the store has worked since the last time.
  PSTORE = <<~'RUBY'
    require "rack"
    require "rack/session/abstract/id"
    require "pstore"
    FILE = File.join(__dir__, "sessions.pstore")
    PStore.new(FILE).transaction { |sessions| sessions["kept"] = { "n" => 4 } }
    TRANSACTIONS = []
    class Sessions < Rack::Session::Abstract::Persisted
      def find_session(_request, sid)
        found = within(true) { |sessions| sessions[sid.to_s] }
        found ? [sid, found] : [generate_sid, {}]
      end

      def write_session(_request, sid, session, _options)
        within(false) { |sessions| sessions[sid.to_s] = session }
        sid
      end

      def delete_session(*) = generate_sid

      private

      def within(reads_only)
        store = PStore.new(FILE)
        store.transaction(reads_only) { |sessions| TRANSACTIONS << [store.path == FILE, reads_only]; yield sessions }
      end
    end
    use Sessions, key: "s"
    run(lambda do |env|
      next [200, {}, [TRANSACTIONS.slice!(0..).inspect]] if env["PATH_INFO"] == "/transactions"

      session = env["rack.session"]
      [200, {}, [(session["n"] = session["n"].to_i + 1).to_s]]
    end)
  RUBY
  OF_A_VISITOR = [%w[cookie s=kept]].freeze

  def answer(shadow, path = "/") = shadow.get(path, headers: OF_A_VISITOR).values_at("text", "write")

  def with_sessions(code = PSTORE)
    with_shadow(code) do |shadow, dir|
      before = File.binread(File.join(dir, "sessions.pstore"))
      yield shadow
      assert_equal before, File.binread(File.join(dir, "sessions.pstore"))
    end
  end

  def test_a_session_in_a_pstore_is_written_to_a_copy
    with_sessions do |shadow|
      2.times do
        assert_equal ["5", nil], answer(shadow)
        assert_equal [[true, true], [false, false]].inspect, answer(shadow, "/transactions").first, "read where it is, written elsewhere"
      end
    end
  end

  def test_so_is_one_that_renames_its_file
    with_sessions(PSTORE.sub("store = PStore.new(FILE)", "store = PStore.new(FILE).tap { |one| one.ultra_safe = true }")) do |shadow|
      2.times { assert_equal ["5", nil], answer(shadow) }
    end
  end

  # There requests may write, but a visitor's session is not theirs.
  def test_so_is_one_in_the_folder_for_temporary_files
    Dir.mktmpdir do |folder|
      file = File.join(folder, "sessions.pstore")
      with_shadow(PSTORE.sub('File.join(__dir__, "sessions.pstore")', file.inspect)) do |shadow|
        before = File.binread(file)
        2.times do
          assert_equal ["5", nil], answer(shadow)
          assert_equal [[true, true], [false, false]].inspect, answer(shadow, "/transactions").first, "read where it is, written elsewhere"
        end
        assert_equal before, File.binread(file)
      end
    end
  end

  # A store that refuses to be written anywhere but in its file is one of some other kind.
  def test_a_store_that_is_no_file_is_not_written
    code = PSTORE.sub("found = within(true) { |sessions| sessions[sid.to_s] }", 'found = { "n" => 4 }')
    with_sessions(code) do |shadow|
      assert_equal ["5", nil], answer(shadow)
      assert_equal "[]", answer(shadow, "/transactions").first
    end
  end

  def test_sessions_in_pacelines_store
    skip "no native part" unless Paceline::Native
    with_sessions do |shadow|
      assert_equal({ "ok" => true }, shadow.ask(do: "patch", name: "session_store"))
      assert_equal ["5", nil], answer(shadow)
      assert_equal [[true, true]].inspect, answer(shadow, "/transactions").first, "the session is taken over"
      2.times { assert_equal ["5", nil], answer(shadow) }
      assert_equal "[]", answer(shadow, "/transactions").first, "and the application's store has nothing to do"
      assert_equal ["1", nil], shadow.get("/").values_at("text", "write"), "a visitor without a session"
    end
  end

  def test_without_the_native_part
    skip "with it" if Paceline::Native
    with_sessions { |shadow| assert_match(/native part/, shadow.ask(do: "patch", name: "session_store")["error"]) }
  end
end
