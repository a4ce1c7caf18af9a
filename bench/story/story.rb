# frozen_string_literal: true

# What each story says of itself, and what it measures. A subclass in bench/stories/ has WORDS, and makes sections: {name => an object with `steps`, `run`, which
# gives StoryFigures::Parts, and `absent`, {way => why it was not run}}. Prints nothing, writes nothing.
require_relative "figures"

module Bench
  # CHANGE: [where, what is written there]. SHOWN: [beginning of a part's title, way before, way after], the figures of its card.
  StoryWords = Struct.new(:name, :title, :slow, :published, :change, :shown, keyword_init: true)

  # ROUNDS, SECONDS of a load, QUICK; PLACE for files; PROCESSES: a Processes that adopts orphans. The rest is what Visit asks of its options.
  StorySetting = Struct.new(:generators, :rounds, :seconds, :quick, :place, :processes, :connections, :full, :warm_up, :output, keyword_init: true) do
    def with(**more) = dup.tap { |it| more.each { |name, value| it[name] = value } }
  end

  class Story
    # Debian packages whose versions are noted besides the servers'.
    def self.packages = []
    def self.words = self::WORDS

    # The block is told of each step: who, what, and whether something was measured.
    def initialize(setting, &told)
      @setting = setting
      @told = told
    end

    # Made once: a section counts its steps before it runs.
    def sections = @sections ||= make_sections

    private

    attr_reader :setting

    def contest(with: {}, **plan) = StoryContest.new(setting.with(**with), **plan, &@told)

    # For a section that is told of by what is done alone.
    def told_of(name) = ->(what, done) { @told.call(name, what, done) }
  end
end
