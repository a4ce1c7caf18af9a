# frozen_string_literal: true

# What the request in hand tried to write, and where: the first attempt counts; and which programs it has started. It never keeps a value that was to be written.
require_relative "current_request"
require_relative "place"

module Paceline
  module Server
    module Shadow
      class WriteNotes
        # Characters of what is told.
        MAX = 200
        # Values in SQL: texts of a single quote, of dollars, and numbers that are no part of a name.
        TEXT = /'(?:[^']|'')*'?|\$(\w*)\$.*?\$\1\$/m
        # Where a backslash may stand before a quote, as in MySQL, nobody can tell where a text ends.
        REST = /'.*/m
        NUMBER = /(?<![\w$?"`])\d+(?:\.\d+)?/
        private_constant :MAX, :TEXT, :REST, :NUMBER

        # `root`: the application's folder.
        def initialize(root)
          @place = Place.new(root)
        end

        # As the driver reads it; nil: the request has written nothing.
        def to_h
          CurrentRequest.get.note
        end

        # The request in hand has started this program.
        def add_program(name)
          at = @place.of(caller_locations(1))
          CurrentRequest.concerned.each { |request| (request.programs ||= {})[name[0, MAX]] ||= at }
        end

        # [["convert", "app/models/image.rb:7"], ...]
        def programs
          CurrentRequest.get.programs.to_a
        end

        # `kind`: sql, file, mail, job, store, outbound or cache.
        def add(kind, what)
          requests = CurrentRequest.concerned.reject(&:note)
          return if requests.empty?

          what = what.to_s.dup.force_encoding(Encoding::UTF_8).scrub("?")
          what = what.gsub(what.include?("\\") ? REST : TEXT, "?").gsub(NUMBER, "?") if kind == "sql"
          note = { "what" => what.split.join(" ")[0, MAX], "at" => @place.of(caller_locations(1)), "kind" => kind }
          requests.each { |request| request.note = note }
        end
      end
    end
  end
end
