# Rack applications beside the tests that use them. Each `rack(PATH) { |env| ... }` in the class of a test is one route of its config.ru, which holds
# the source of the block: the server loads it, and the block itself never runs. So it sees no variable, constant or method of the test, only those of
# `rack_setup`. It asserts nothing itself.
#
#     rack("/flushed") { |env| [200, {}, Parts.new("one ", "two")] }
#     def test_what_asks_for_it_is_sent_chunk_by_chunk ...
require_relative "scenario"

module RackRoutes
  # The beginning of the config.ru. Lint holds the application to Rack's specification, and hides from the server what a body is (an Array, a file).
  HEAD = <<~'RUBY'.freeze
    require "uri"
    ROUTES, BARE = {}, []
  RUBY
  TAIL = <<~'RUBY'.freeze
    app = ->(env) { (ROUTES[env["PATH_INFO"]] || ROUTES.fetch(:other)).call(env) }
    linted = Rack::Lint.new(app)
    run ->(env) { BARE.include?(env["PATH_INFO"]) ? app.call(env) : linted.call(env) }
  RUBY

  def self.included(test) = test.extend(Declarations)

  module Declarations
    # Source that stands before the routes: classes, methods and constants of the application.
    def rack_setup(source) = rack_source << source

    # A route for each path; without a path: for every other one. `bare: true`: without Rack::Lint, which refuses what only some versions of Rack
    # allow. So are paths below /bare.
    def rack(*paths, bare: false, &block)
      paths = [:other] if paths.empty?
      source = Source.of(block)
      paths.each do |path|
        rack_source << "ROUTES[#{path.inspect}] = proc #{source}\n"
        rack_source << "BARE << #{path.inspect}\n" if bare || path.to_s.start_with?("/bare/")
      end
    end

    def rack_source = @rack_source ||= +""
  end

  # A server of one thread for the routes and `files`.
  def start(*arguments, files: {}, **options)
    @server = serve(@dir = app({ "config.ru" => config_ru, **files }), "-t", "1", *arguments, **options)
  end

  def config_ru = [HEAD, self.class.rack_source, TAIL].join("\n")

  # Blocks as they are written.
  module Source
    # Positions are lines and bytes, of either of Ruby's parsers.
    def self.of(block)
      file, = block.source_location
      first_line, first_column, last_line, last_column = RubyVM::InstructionSequence.of(block).to_a[4].fetch(:code_location)
      lines = File.readlines(file, mode: "rb")[first_line - 1..last_line - 1]
      lines[-1] = lines[-1].byteslice(0, last_column)
      lines[0] = lines[0].byteslice(first_column..)
      lines.join.force_encoding("UTF-8")
    end
  end
end
