# frozen_string_literal: true

module Paceline
  module XML
    module Template
      # Readers turn a template into a tree (tree.rb): one by Prism, where the Ruby has it, and one by Ripper. Both tell the same.
      module Reader
        # A template that is not compiled at all: no valid Ruby, or it defines methods or classes.
        class Unreadable < StandardError; end

        KEYWORDS = %w[alias and begin break case class def defined? do else elsif end ensure false for if in module next nil not or redo
                      rescue retry return self super then true undef unless until when while yield __FILE__ __LINE__ __ENCODING__].freeze
        private_constant :KEYWORDS

        # The reader for this Ruby.
        def self.best
          @best ||= begin
            require "prism"
            require_relative "prism_reader"
            PrismReader
          rescue LoadError
            require_relative "ripper_reader"
            RipperReader
          end
        end

        # What stands before a template when it is read: a method's head that declares what it may use. One line, not counted.
        # `locals` as in Template.compile.
        def self.head(locals)
          return "def template(local_assigns, output_buffer, #{locals}); xml = nil;\n" if locals.is_a?(String)

          locals = locals.map(&:to_s).grep(/\A(?![A-Z0-9])(?:[[:alnum:]_]|[^\0-\177])+\z/) - KEYWORDS
          "def template(local_assigns, output_buffer); #{locals.map { |name| "#{name} = nil;" }.join} xml = nil;\n"
        end

        TAIL = "\nend\n"

        # What both readers are made of: `read` and `valid?` of a template, for a class that has them for its instances.
        module Reading
          # The tree of `source`. Raises Unreadable.
          def read(source, locals)
            new(source, locals).read
          end

          # Whether `source` is Ruby.
          def valid?(source, locals)
            new(source, locals).valid?
          end
        end

        def initialize(source, locals)
          @head = Reader.head(locals)
          @text = "#{@head}#{source}#{TAIL}"
        end

        # Where a place of what was read is in the template.
        def offset(position)
          position - @head.bytesize
        end
        private :offset

        def self.included(reader)
          reader.extend(Reading)
        end
      end
    end
  end
end
