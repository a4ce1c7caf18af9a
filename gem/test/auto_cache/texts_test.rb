# frozen_string_literal: true

require "helper"

# What is recorded of random texts that a Rails application makes. Each test in a process of its own.
class AutoCacheTextsTest < Paceline::Test
  HERE = %w[rails sqlite3 rack-test].all? { |name| Gem::Specification.find_all_by_name(name).any? }

  def setup
    skip "Rails is not here" unless HERE
  end

  def shop
    Dir.mktmpdir do |folder|
      ENV["FOLDER"] = folder
      require "auto_cache/support/shop"
      yield Visitor.new
    end
  end

  # What was made by chance: the form of a text, or the method.
  def made(visitor, path)
    found = []
    visitor.ask(path).each { |letter, what, text, place| found << [letter, what, (text if letter == "R"), (place || text)[/[\w.]+(?=:\d+\z)/]] if %w[R M].include?(letter) }
    found
  end

  def test_texts_that_the_front_can_make_as_well
    return if apart

    shop do |visitor|
      { "hex(4)" => "hex", "hex" => "hex", "uuid" => "uuid", "alphanumeric(10)" => "alphanumeric", "alphanumeric" => "alphanumeric", "urlsafe_base64" => "base64url",
        "urlsafe_base64(8)" => "base64url" }.each do |call, form|
        found = made(visitor, "/named?by=#{call}")
        assert_equal [["R", form, visitor.last_response.body[/f-(.+)"/, 1], "shop.rb"]], found, call
      end
      assert_equal 3, made(visitor, "/named?by=hex(4)+hex(4)+uuid").size
      shown = made(visitor, "/named_in_place").first[2]
      assert_equal visitor.last_response.body[/"(.+)"/, 1].downcase, shown, "as it was made"
    end
  end

  def test_chance_that_refuses_the_page
    return if apart

    shop do |visitor|
      %w[hex(3) hex(200) alphanumeric(7) urlsafe_base64(3) urlsafe_base64(16,true) hex(4.0) base64 random_number(10) rand random_bytes(4).size bytes(4).size].each do |call|
        found = made(visitor, "/named?by=#{call}")
        assert_equal ["M"], found.map(&:first).uniq, call
        assert_includes found.map { |one| one[1] }, "SecureRandom.#{call[/\w+/]}"
      end
      # Of a text by another name nobody knows the form.
      SecureRandom.define_singleton_method(:gen_random) { |size| "\xff" * size }
      assert_equal [["R", "hex", "ffffffff", "shop.rb"]], made(visitor, "/named?by=hex(4)")
      SecureRandom.singleton_class.prepend(Module.new { def hex(*) = super.upcase })
      assert_equal [%w[R hex ffffffff]], made(visitor, "/named?by=hex(4)").map { |one| one.first(3) }
    end
  end

  def test_what_is_kept_of_a_random_text
    return if apart

    shop do |visitor|
      kept = "keeps an entry of Rails.cache after it has made a random text"
      Rails.application.config.action_controller.perform_caching = true
      ActionController::Base.perform_caching = true
      assert_equal kept, visitor.ask("/ticket").untracked_because
      assert_equal kept, visitor.ask("/fragment").untracked_because
      assert_nil visitor.ask("/fragment").untracked_because, "it is read"
      assert_nil visitor.ask("/cached_before").untracked_because
    end
  end
end
