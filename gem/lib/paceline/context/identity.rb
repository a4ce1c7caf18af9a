# frozen_string_literal: true

module Paceline
  # Somebody whom the server has authenticated, before the application knows its own user.
  #
  #   Paceline.current.identity.name         # "ann@EXAMPLE.ORG"
  #   Paceline.current.identity.in?(:staff)
  #
  # It never shows the name by itself: `inspect`, which ends up in logs and error pages, has none.
  class Identity
    # The env's key for what the server's single sign-on knows: {name, groups, mechanism}.
    KEY = "paceline.user"

    # A String; an Array of Strings; how it was proved ("gssapi", "basic" ...) or nil.
    attr_reader :name, :groups, :mechanism

    # That of a request: from env["paceline.user"], else from REMOTE_USER; nil without either.
    def self.from(env)
      told = env[KEY]
      return new(told[:name] || told["name"], told[:groups] || told["groups"] || [], told[:mechanism] || told["mechanism"]) if told

      name = env["REMOTE_USER"]
      new(name) unless name.nil? || name.empty?
    end

    # `name`: its bytes are taken for UTF-8, and what is none is replaced.
    def initialize(name, groups = [], mechanism = nil)
      @name = text(name)
      @groups = groups.map { |group| text(group) }.freeze
      @mechanism = mechanism && text(mechanism)
    end

    # The name.
    def to_s
      @name
    end

    # Whether it is in this group.
    def in?(group)
      @groups.include?(group.to_s)
    end

    def ==(other)
      other.is_a?(Identity) && name == other.name && groups == other.groups && mechanism == other.mechanism
    end
    alias eql? ==

    def hash
      [name, groups, mechanism].hash
    end

    def inspect
      "#<#{self.class}>"
    end

    private

    def text(value)
      String.new(value.to_s, encoding: Encoding::UTF_8).scrub.freeze
    end
  end
end
