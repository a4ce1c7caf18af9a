# frozen_string_literal: true

# What a hostile application does, one line each: a name, what its client may see, and the code. The suite and the application that it serves
# both load this list; the application alone runs the code.
module Hostile
  # `expected`: what the client sees, one of several: a status; `:cut`, a response that breaks off; `:closed`, no response. `kills`: other requests may
  # see that it took their worker. `apart`: it gets a server of its own. `spoils`: from
  # then on its process answers everybody wrongly. `keeps`: it keeps its thread, as what has begun to answer may. `reads`: bytes of the body
  # after which the client leaves. `raw`: what the client gets are the application's own bytes (hijack). `request`: the client's bytes, in which
  # PATH stands for where the behaviour is, with the token.
  Behaviour = Struct.new(:group, :name, :expected, :kills, :apart, :spoils, :keeps, :method, :reads, :raw, :request, :code, keyword_init: true) do
    def path = "/#{name.gsub(/[^\w.]+/, "-")}.#{group.behaviours.index(self)}"

    # Others may notice: a worker that is lost takes its other requests along.
    def felt? = kills || expected.intersect?([502, 503, 504, :closed, :cut])
  end

  # Behaviours that one server is asked for in turn. `settings`: its paceline.toml.
  Group = Struct.new(:name, :settings, :behaviours) do
    def behaviour(name, *expected, kills: false, apart: false, spoils: false, keeps: false, method: "GET", reads: nil, raw: false, request: nil, &code)
      behaviours << Behaviour.new(group: self, name: "#{self.name} #{name}", expected: expected, kills: kills, apart: apart, spoils: spoils, keeps: keeps, method: method,
                                  reads: reads, raw: raw, request: request, code: code)
    end
  end

  GROUPS = []

  def self.group(name, settings = "", &list)
    GROUPS << Group.new(name, settings, []).tap { |group| group.instance_eval(&list) }
  end

  Dir[File.join(__dir__, "behaviours", "*.rb")].sort.each { |path| require path }
end
