# frozen_string_literal: true

require_relative "../cost"
require_relative "../place"
require_relative "memory"

# What if the method that a line of the application calls took no time? A request's first replay shows whose method it is, the second one keeps what each
# call returns, and the later ones return that at once, call by call. What else the method does is left out. Calls with a block are made.
module Paceline
  module Server
    module Shadow
      module Patches
        class FreeLine
          class << self
            # `at`: as "app/models/beer.rb:4"; `method`: the name of the method that is called there.
            def apply(params, shadow)
              path, _, line = params["at"].to_s.rpartition(":")
              name = params["method"].to_s
              raise Inapplicable, "no line and no method are named" if path.empty? || name.empty?

              new(path, Integer(line), name.to_sym, shadow)
            end
          end

          def initialize(path, line, name, shadow)
            @path = path
            @line = line
            @name = name
            @place = Place.new(shadow.root)
            @is_path = Hash.new { |known, other| known[other] = @place.relative(other) == @path }
            @memory = Memory.new(shadow)
            @owners = {}.compare_by_identity
            @trace = trace
            shadow.on_replay { |_, first| start(first) }
          end

          # Whether this is where the line calls.
          def here?(location)
            location && location.lineno == @line && @is_path[location.absolute_path || location.path]
          end

          # The kept result of this call, or what the block returns.
          def result
            number, given = Cost.aside { kept }
            return given.first if given

            yield.tap { |value| @memory[number] = [copy(value)] if @recording }
          end

          private

          # The call's number, and a list of what is to be given; nil: it is to be made.
          def kept
            number = @memory.next_number(:calls)
            result = @memory[number] unless @recording
            [number, result && [copy(result.first)]]
          end

          def start(first)
            @recording = !first && !@memory[:recorded]
            return @trace.enable if first

            @trace.disable
            @memory[:recorded] = true
            raise Inapplicable, missing if @owners.empty?

            @owners.each { |owner, done| @owners[owner] = done || cover(owner) }
          end

          def missing = "#{@path}:#{@line} does not call #{@name}"
          def trace = TracePoint.new(:call, :c_call) { |event| find(event) }

          def find(event)
            return unless event.method_id == @name

            # An event of a method in C has the place of its caller.
            outer = caller_locations(3, 1)&.first if event.event == :call
            line, path = outer ? [outer.lineno, outer.absolute_path] : [event.lineno, event.path]
            @owners[event.defined_class] ||= false if line == @line && path && @is_path[path]
          end

          # True.
          def cover(owner)
            free, name = self, @name
            hidden = owner.private_method_defined?(name)
            owner.prepend(Module.new do
              define_method(name) do |*arguments, &block|
                next super(*arguments, &block) if block || !Cost.aside { free.here?(caller_locations(3, 1)&.first) }

                free.result { super(*arguments) }
              end
              ruby2_keywords(name)
              private(name) if hidden
            end)
            true
          rescue FrozenError => e
            raise Inapplicable, e.message
          end

          # The application may change it. What is within stays: a copy of all of it would take time, too.
          def copy(value)
            value.is_a?(String) || value.is_a?(Array) || value.is_a?(Hash) ? value.dup : value
          end
        end
      end
    end
  end
end
