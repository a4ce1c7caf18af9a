# frozen_string_literal: true

require "helper"
require "paceline/server/failure"

# What is told of an error, whatever the application has made of it: telling never raises, and what is told is text.
class FailureTest < Minitest::Test
  BINARY = "\xff\0caf\xc3\xa9".b.freeze

  def failure(error) = Paceline::Server::Failure.new(error, step: "request", root: __dir__)

  def told(error)
    (failure(error).to_h.values.map(&:to_s) << failure(error).report).each do |text|
      assert text.dup.force_encoding(Encoding::UTF_8).valid_encoding?, text.inspect
    end
    failure(error).to_h
  end

  def test_text_of_any_encoding
    { BINARY => "\uFFFD\0caf\u00e9", "caf\u00e9".encode("UTF-16LE") => "caf\u00e9", "caf\xe9".dup.force_encoding("ISO-8859-1") => "caf\u00e9",
      "a".dup.force_encoding("UTF-7") => "a", 42 => "42", nil => "RuntimeError" }.each do |message, expected|
      assert_equal expected, told(RuntimeError.new(message))["message"].dup.force_encoding(Encoding::UTF_8)
    end
  end

  def test_backtrace_of_nonsense
    error = RuntimeError.new("x").tap { |one| one.set_backtrace(["#{BINARY}:7:in x"]) }
    assert_equal "7", told(error)["line"]
    assert_equal "", told(Class.new(StandardError) { def backtrace = exit }.new)["backtrace"]
  end

  def test_methods_that_raise_and_leave
    %w[raise exit throw(:x) abort].each do |leave|
      %i[message cause class full_message backtrace detailed_message corrections].each do |name|
        told(Class.new(StandardError) { class_eval("def #{name}(*) = #{leave}", __FILE__, __LINE__) }.new("x"))
      end
    end
  end

  def raised
    yield
  rescue StandardError => e
    e
  end

  # What Ruby says in the same words.
  def test_variables_and_keys_of_hashes
    assert_equal "", told(raised { ENV.fetch("NO_SUCH_VARIABLE") })["detail"].sub(/.*\(KeyError\)\z/m, "")
    assert_equal "looked up in: Hash", told(raised { {}.fetch("NO_SUCH_VARIABLE") })["detail"].lines.last
    assert_equal "", told(raised { raise KeyError, "key not found: \"X\"" })["detail"]
  end

  def test_constants_of_what_has_no_name
    error = raised { Object.new.instance_eval("Breweryy", __FILE__, __LINE__) }
    assert_equal "uninitialized constant Breweryy", told(error)["message"].lines.first.chomp
  end

  # Since Ruby 3.2 an exception gives its line on request.
  def test_lines_of_gems_are_not_pointed_into
    skip "this Ruby says it in the message" unless Exception.method_defined?(:detailed_message)
    Dir.mktmpdir do |dir|
      File.write(File.join(dir, "shop.rb"), "nil.hops\n")
      error = raised { load File.join(dir, "shop.rb") }
      details = [dir, "/srv/app"].map { |root| Paceline::Server::Failure.new(error, step: "boot", root: root).to_h["detail"] }
      assert_equal [true, false], details.map { |detail| detail.include?("^^^^^") }
    end
  end

  def test_a_chain_of_causes
    chain = raised do
      raised { raise "one" }.then { |one| raise ArgumentError, "two", cause: one }
    rescue ArgumentError
      raise "three"
    end
    assert_equal "ArgumentError: two\ncaused by RuntimeError: one", told(chain)["cause"]
    long = (1..9).inject(nil) { |cause, n| raised { raise n.to_s, cause: cause } }
    assert_equal "8\n7\n6\n5\n4", told(long)["cause"].gsub(/(caused by )?RuntimeError: /, "")
  end

  def test_cause_in_another_encoding
    begin
      raise BINARY
    rescue RuntimeError
      begin
        raise "h\u00e9".encode("UTF-16LE")
      rescue RuntimeError => e
        assert_includes told(e)["cause"].dup.force_encoding(Encoding::UTF_8), "caf\u00e9"
      end
    end
  end
end
