# frozen_string_literal: true

# The ways to make fifteen calls that `bin/bench outbound` compares. How each calls is OutboundCallers'.
module Bench
  # CALLER: its name in OutboundCallers. FRONT: it goes through Paceline's front; false: it is ours, and must do without. SERVER: "h1" if the upstream is to have no HTTP/2.
  # SLOW: it opens connections all the time, so fewer batches will do. TOGETHER: the calls are made at once.
  OutboundWay = Struct.new(:name, :title, :caller, :front, :server, :slow, :together, keyword_init: true) do
    def initialize(server: "h2", **) = super

    # What tells it whether there is a front, whose socket is at PATH.
    def environment(path) = { "PACELINE_EGRESS" => front ? path : "off" }
  end

  module OutboundWays
    FLOOR = "raw"
    BASELINE = "faraday"
    ALONE = "without a front"

    # Why others are not here.
    NOT_PACKAGED = { "httpx" => "Debian 12 has no package of it", "patron" => "Debian 12 has no package of it" }.freeze

    def self.all
      way = ->(name, title, caller = name, **more) { OutboundWay.new(name: name, title: title, caller: caller, **more) }
      [
        way["raw", "the floor: one SSLSocket, requests written by hand"],
        way["net-http", "Net::HTTP.get_response", slow: true],
        way["faraday", "Faraday, net_http (its default)", slow: true],
        way["faraday-new", "Faraday.new for each page, net_http", slow: true],
        way["persistent", "Faraday, net_http_persistent"],
        way["persistent-new", "Faraday.new for each page, net_http_persistent", slow: true],
        way["excon", "Faraday, excon", slow: true],
        way["typhoeus", "Faraday, typhoeus"],
        way["typhoeus-parallel", "Faraday, typhoeus, in_parallel", together: true],
        way["install", "install!, Net::HTTP.get_response", front: true],
        way["install-alone", "install!, Net::HTTP.get_response, #{ALONE}", "install", front: false],
        way["paceline", "Faraday, :paceline", front: true],
        way["paceline-new", "Faraday.new for each page, :paceline", front: true],
        way["paceline-alone", "Faraday, :paceline, #{ALONE}", "paceline", front: false],
        way["get", "Paceline::HTTP.get", front: true],
        way["get-h1", "Paceline::HTTP.get, upstream without HTTP/2", "get", front: true, server: "h1"],
        way["all", "Paceline::HTTP.all", front: true, together: true],
        way["all-alone", "Paceline::HTTP.all, #{ALONE}", "all", front: false, together: true],
        way["all-h1", "Paceline::HTTP.all, upstream without HTTP/2", "all", front: true, server: "h1", together: true],
        way["parallel", "Faraday, :paceline, in_parallel", front: true, together: true],
        way["parallel-alone", "Faraday, :paceline, in_parallel, #{ALONE}", "parallel", front: false, together: true]
      ]
    end

    def self.named(names)
      names.map { |name| all.find { |way| way.name == name } or raise ArgumentError, "no way #{name}; there are #{all.map(&:name).join(", ")}" }
    end
  end
end
