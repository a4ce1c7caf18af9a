# frozen_string_literal: true

# The stories that there are, in the order of the page. One that does not run from its beginning to its end is not in it.
require_relative "contest"
require_relative "story"

module Bench
  module Stories
    NAMES = %w[xml onewrite pstore provision ahead servers deploy proxy rails swap].freeze
    NAMES.each { |name| require_relative "../stories/#{name}" }

    module_function

    def all = NAMES.map { |name| of(name) }

    def named(names)
      names.map { |name| NAMES.include?(name) ? of(name) : raise(ArgumentError, "no story #{name}; there are #{NAMES.join(", ")}") }
    end

    def list = all.map { |story| format("%-10s %s", story.words.name, story.words.title) }.join("\n")

    def of(name) = const_get("#{name.capitalize}Story")
  end
end
