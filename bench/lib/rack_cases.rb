# frozen_string_literal: true

require_relative "kind"

module Bench
  # The cases of https://github.com/wouterken/itsi-server-benchmarks, as scenarios of bench/apps/cases. `bin/bench serve cases` runs all of them.
  module RackCases
    FILES = { "index.html" => "<!DOCTYPE html>\n<title>A small file</title>\n<p>#{"x" * 70}</p>\n", "image.png" => Random.new(13).bytes(9_230) }.freeze
    PIECE = "data 0, data 1"
    # Name, what it is, what the answer must have.
    TABLE = [
      ["empty", "an empty response", { expected: "" }],
      ["hello_world", "11 bytes", { path: "/hello", expected: "hello world" }],
      ["small", "3 KB", { contains: "--encoding" }],
      ["medium", "300 KB", { contains: "--encoding" }],
      ["large", "3 MB", { contains: "--encoding" }],
      ["chunked", "5 pieces, 1 ms apart", { contains: "Chunk 5" }],
      ["stream_small", "5 pieces, each flushed", { contains: PIECE }],
      ["stream_large", "1,000 pieces, each flushed", { contains: PIECE }],
      ["io_heavy", "SQLite, threads and pauses", { contains: "A post of the test" }],
      ["many_small_delay", "sleeps 10 ms a hundred times", { expected: "hello world" }],
      ["big_delay", "sleeps a second", { expected: "hello world" }],
      ["cpu_heavy", "prime numbers", { expected: "168 prime numbers up to 1000\n" }],
      ["sinatra", "Sinatra, 13 bytes", { expected: "Hello, world!" }],
      ["full_hijack", "a socket taken over", { expected: "Hello from the socket!\n" }],
      ["static_small", "a file of 130 bytes", { path: "/index.html", expected: FILES["index.html"] }],
      ["static_large", "a file of 9 KB", { path: "/image.png", expected: FILES["image.png"] }]
    ].freeze

    def self.all
      TABLE.map { |name, title, request| scenario(name, title, [kind(name, **request)]) } + [mixed]
    end

    # Files and the application in turn.
    def self.mixed
      files = FILES.map { |file, content| kind(file, path: "/#{file}", expected: content) }
      scenario("static_mixed", "both files and the application", files + [kind("dynamic", expected: "Dynamic: /dynamic")])
    end

    def self.kind(name, path: "/#{name}", **answer) = Kind.new(name, path, **answer)

    # Those that wait a second need a time in which every connection has had its answer several times.
    def self.scenario(name, title, kinds)
      Scenarios.new(name, "Rack, #{title}", :cases, kinds, longer: name.end_with?("_delay") ? 5 : 1, warm_up: name.end_with?("_delay") ? 10 : 200, shapes: [Shape.new(50, true)])
    end
  end
end
