# frozen_string_literal: true

require_relative "../place"
require_relative "clock"

# Where in the application something was done. It only reads the stack.
module Paceline
  module Server
    module Shadow
      class Evidence
        class Places
          # `root`: the application's folder.
          def initialize(root)
            @place = Place.new(root.to_s)
            @names = {}
          end

          # The innermost frame of the application that calls this, as `app/models/beer.rb:4`; "": there is none.
          def here
            Clock.aside { @place.of(caller_locations(2)) }
          end

          # A line of the application as `app/models/beer.rb:4`; nil: it is another's.
          def of(path, line)
            name = path && @place.relative(path)
            "#{name}:#{line}" if name
          end

          # A file's path below the root; what is a gem's begins with the gem's folder.
          def name(path)
            @names[path] ||= @place.relative(path) || (path.include?("/gems/") ? path.rpartition("/gems/").last : path)
          end
        end

        # Counts places.
        class Tally
          def initialize
            @counts = Hash.new(0)
          end

          def add(place)
            @counts[place] += 1 unless place.empty?
          end

          # The most frequent one, the first of equals; "": none.
          def top
            @counts.max_by { |_, count| count }&.first || ""
          end
        end
      end
    end
  end
end
