# frozen_string_literal: true

module Paceline
  module XML
    module Template
      # Compiles one template: walks its tree, knows which variables are the builder, and rewrites the calls that have a shape.
      class Compiler
        # What may assign a variable, or give the builder methods, without being seen to.
        MAGIC = %w[eval instance_eval instance_exec class_eval module_eval local_variable_set local_variables
                   define_singleton_method].freeze
        EMIT = "::Paceline::XML::Emit"
        # Values that need no parentheses around them.
        SIMPLE = /\A@{0,2}[a-z_][\w.]*[?!]?\z/
        private_constant :MAGIC, :EMIT, :SIMPLE

        def initialize(source, locals, reader)
          @source = source
          @locals = locals
          @reader = reader
          @pieces = []
        end

        # The Edits that compile the template; none if it can't be compiled.
        def edits
          return none unless [Encoding::UTF_8, Encoding::US_ASCII].include?(@source.encoding) && @source.valid_encoding?

          tree = @reader.read(@source, @locals)
          @assigned = assigned(tree)
          return none if @assigned.nil? || @assigned.include?("xml")

          @inlining = Inlining.new(@source)
          scope = Scope.new
          @locals.each { |name| scope.declare(name.to_s) } if @locals.is_a?(Array)
          scope.declare("xml", builder: true)
          visit(tree, scope, tree.type == :list)
          edits = Edits.new(@source, @pieces.map { |start, finish, parts| Edits::Edit.new(start, finish, text(parts)) })
          @reader.valid?(edits.apply, @locals) ? edits : none
        rescue Reader::Unreadable
          none
        end

        private

        def none
          Edits.new(@source, [])
        end

        # The names that are assigned anywhere; nil if that can't be known.
        def assigned(node, names = {})
          return if magic?(node)

          names[node.name] = true if node.type == :assign
          node.children.each { |child| assigned(child, names) or return }
          names
        end

        def magic?(node)
          return false unless node.type == :word || node.type == :call

          name = node.type == :call ? node.detail.name : node.name
          MAGIC.include?(name) || (name == "binding" && node.type == :word)
        end

        def text(parts)
          parts.map { |part| part.is_a?(Variable) ? part.text : part }.join
        end

        # `void`: the value of `node` is not used.
        def visit(node, scope, void = false)
          case node.type
          when :list then visit_list(node, scope, void)
          when :branch
            node.children.each { |child| visit(child, scope, void && (child.type == :list || child.name == :continued)) }
          when :loop then node.children.each { |child| visit(child, scope, child.type == :list) }
          when :block then visit_block(node, Scope.new(scope))
          when :call then visit_call(node, scope, nil)
          else
            note(node, scope)
            node.children.each { |child| visit(child, scope) }
          end
        end

        def visit_list(node, scope, void)
          node.children.each_with_index do |child, index|
            unused = void || index < node.children.size - 1
            child.type == :call ? visit_call(child, scope, unused ? :void : :value) : visit(child, scope, unused)
          end
        end

        def visit_block(node, scope, void = false)
          node.detail.parameters.each { |name| scope.declare(name) unless scope.own?(name) }
          node.children.each { |child| visit(child, scope, void) }
        end

        def note(node, scope)
          case node.type
          when :assign then scope.assign(node.name)
          when :opaque then scope.fix_all
          when :jump then %w[next break redo].include?(node.name) ? scope.fix : scope.fix_all
          when :read, :word then scope.fix if node.name.match?(/\A(?:_[1-9]|it)\z/) # a parameter without a list of them
          end
        end

        # `statement` is :void for a statement whose value is not used, :value for another one, nil in the midst of an expression.
        def visit_call(node, scope, statement)
          receiver = scope.lookup(node.name)
          note(Node.new(:read, node.name), scope)
          call = node.detail
          shape = Shape.of(call, @source) if receiver&.builder
          shape = nil if call.block && !call.block.plain
          *arguments, block = node.children if call.block
          (arguments || node.children).each { |child| visit(child, scope) }
          receiver.uses += 1 if shape
          block ? visit_own_block(block, call, shape, scope, receiver, statement) : shape && rewrite(call, shape, receiver)
        end

        def visit_own_block(block, call, shape, scope, receiver, statement)
          inner = Scope.new(scope)
          parameter = parameter(call, inner) if receiver&.builder
          visit_block(block, inner, receiver&.builder && yields_builder?(call.name))
          return unless shape

          if statement && @inlining.allowed?(call, receiver, inner, parameter)
            inline(call, shape, receiver, parameter, statement)
          else
            rewrite(call, shape, receiver)
          end
        end

        # The Variable of the one parameter that is the builder as well.
        def parameter(call, scope)
          name, *others = call.block.parameters
          return if name.nil? || others.any? || !call.block.plain || !yields_builder?(call.name)

          scope.declare(name, builder: !@assigned.include?(name))
        end

        def yields_builder?(name)
          !Shape.reserved?(name) || name == "tag!"
        end

        def rewrite(call, shape, receiver)
          replace(call.start, call.finish, shape, ["#{EMIT}.#{shape.kind}(", receiver], ")")
        end

        def inline(call, shape, receiver, parameter, statement)
          parameter.stands_for = receiver if parameter
          replace(call.start, call.block.body_start, shape, ["(#{EMIT}.open(", receiver], "); begin;")
          value = statement == :value ? ["; ", receiver, ".target!"] : []
          @pieces << [call.block.body_finish, call.block.finish,
                      ["; ensure; #{EMIT}.close(", receiver, ", #{literal(shape.end_tag)}); end", *value, ")"]]
        end

        # Replaces all between `start` and `finish` but for the values.
        def replace(start, finish, shape, head, tail)
          parts = [*(" " if @source.getbyte(start - 1) == ":".ord && start.positive?), *head, ", #{literal(shape.markup)}"]
          from = start
          shape.values.each do |value|
            simple = SIMPLE.match?(@source.byteslice(value.start...value.finish).b)
            @pieces << [from, value.start, [*parts, ", ", lines(from, value.start), *("(" unless simple)]]
            parts = simple ? [] : [")"]
            from = value.finish
          end
          lines = lines(from, finish)
          # A line may not begin with what comes after the parenthesis.
          @pieces << [from, finish, tail == ")" ? [*parts, lines, tail] : [*parts, tail, lines]]
        end

        # As many line ends as there are in what is replaced.
        def lines(start, finish)
          "\n" * @source.byteslice(start...finish).b.count("\n")
        end

        # A String as Ruby writes it in any encoding, frozen.
        def literal(string)
          escaped = string.gsub(/["\\#]/) { |character| "\\#{character}" }
                          .gsub(/[\u0001\u0002\t]/) { |character| format("\\x%02x", character.ord) }
                          .gsub(/[^\u0000-\u007F]/) { |character| format("\\u{%x}", character.ord) }
          %("#{escaped}".freeze)
        end
      end
    end
  end
end
