# frozen_string_literal: true

require "prism"

module Paceline
  module XML
    module Template
      # Reads a template by Prism (0.19, which Ruby 3.3 has, and 1.x).
      class PrismReader
        include Reader

        JUMPS = { NextNode: "next", BreakNode: "break", RedoNode: "redo", RetryNode: "retry", ReturnNode: "return", YieldNode: "yield",
                  SuperNode: "super", ForwardingSuperNode: "super" }.freeze
        BRANCHES = %i[IfNode UnlessNode CaseNode CaseMatchNode BeginNode].freeze
        CONTINUATIONS = %i[ElseNode WhenNode InNode RescueNode EnsureNode].freeze
        LOOPS = %i[WhileNode UntilNode ForNode].freeze
        REFUSED = %i[DefNode ClassNode ModuleNode SingletonClassNode AliasMethodNode AliasGlobalVariableNode UndefNode
                     PreExecutionNode PostExecutionNode].freeze
        ASSIGNMENT = /\ALocalVariable(Write|Target|OperatorWrite|OrWrite|AndWrite)Node\z/
        private_constant :JUMPS, :BRANCHES, :CONTINUATIONS, :LOOPS, :REFUSED, :ASSIGNMENT

        def read
          result = Prism.parse(@text)
          statements = result.value.statements.body
          raise Reader::Unreadable if result.errors.any? || statements.size != 1 || type(statements[0]) != :DefNode

          body = statements[0].body
          return node(body) if type(body) == :BeginNode

          list(body)
        end

        def valid?
          Prism.parse(@text).errors.empty?
        end

        private

        def type(node)
          node.class.name[/\w+\z/].to_sym
        end

        # Statements without those of the line before the template.
        def list(statements)
          inside = statements.body.reject { |statement| statement.location.start_offset < @head.bytesize }
          Node.new(:list, nil, inside.map { |statement| node(statement) })
        end

        def nodes(node)
          node.compact_child_nodes.map { |child| node(child) }
        end

        def node(node)
          type = type(node)
          raise Reader::Unreadable if REFUSED.include?(type)
          return Node.new(:jump, JUMPS[type], nodes(node)) if JUMPS.key?(type)
          return Node.new(:assign, node.name.to_s, nodes(node)) if type.match?(ASSIGNMENT)
          return Node.new(:loop, nil, nodes(node)) if LOOPS.include?(type)
          return branch(node, type) if BRANCHES.include?(type)
          return Node.new(:branch, :continued, nodes(node) + patterns(node)) if CONTINUATIONS.include?(type)

          case type
          when :StatementsNode then list(node)
          when :LocalVariableReadNode then Node.new(:read, node.name.to_s, [])
          when :CallNode then call_node(node)
          when :ItLocalVariableReadNode then Node.new(:read, "it", [])
          when :LambdaNode, :BlockNode then block_node(node, nil)
          when :MatchWriteNode then Node.new(:opaque, nil, nodes(node))
          when :MatchRequiredNode, :MatchPredicateNode then Node.new(:other, nil, nodes(node) + patterns(node))
          else Node.new(:other, nil, nodes(node))
          end
        end

        # `a ? b : c` has no statements, only values.
        def branch(node, type)
          keyword = node.if_keyword_loc&.slice if type == :IfNode
          return Node.new(:branch, (:continued if keyword == "elsif"), nodes(node)) unless type == :IfNode && keyword.nil?

          values = [node.statements, node.respond_to?(:subsequent) ? node.subsequent.statements : node.consequent.statements]
          Node.new(:other, nil, [node(node.predicate), *values.flat_map { |statements| statements.body.map { |value| node(value) } }])
        end

        # What a pattern assigns by its keys.
        def patterns(node)
          return [] unless node.respond_to?(:pattern)

          [Node.new(:opaque, nil, keys(node.pattern).map { |name| Node.new(:assign, name, []) })]
        end

        def keys(node)
          own = type(node) == :AssocNode && type(node.key) == :SymbolNode ? [node.key.unescaped] : []
          own + node.compact_child_nodes.flat_map { |child| keys(child) }
        end

        def call_node(node)
          return other_call(node) unless on_variable?(node)

          call = call(node)
          block = block_node(node.block, call) if node.block && type(node.block) == :BlockNode
          call.block = block&.detail
          arguments = node.arguments ? nodes(node.arguments) : []
          passed = [node(node.block)] if node.block && block.nil?
          Node.new(:call, node.receiver.name.to_s, [*arguments, *passed, *[block].compact], call)
        end

        def on_variable?(node)
          node.receiver && type(node.receiver) == :LocalVariableReadNode && node.call_operator_loc&.slice == "." && node.message_loc &&
            !node.name.end_with?("=")
        end

        def other_call(node)
          Node.new(:word, node.name.to_s, nodes(node), (:bare if node.receiver.nil?))
        end

        def call(node)
          list = arguments(node)
          list = nil unless node.message_loc.start_offset == node.receiver.location.end_offset + 1
          finish = (node.closing_loc || node.arguments&.location || node.message_loc).end_offset
          Call.new(offset(node.location.start_offset), node.message_loc.slice, offset(node.message_loc.end_offset), list, offset(finish))
        end

        # The Arguments of a call; nil if they are not plain.
        def arguments(call)
          return if call.block && type(call.block) == :BlockArgumentNode
          return [] if call.arguments.nil?
          return if heredoc?(call.arguments)

          call.arguments.arguments.each_with_index.flat_map do |argument, index|
            case type(argument)
            when :KeywordHashNode, :HashNode
              return unless index == call.arguments.arguments.size - 1 && argument.elements.any?

              argument.elements.map { |pair| pair(pair) || (return) }
            when :SplatNode, :ForwardingArgumentsNode then return
            else Argument.new(nil, *bounds(argument))
            end
          end
        end

        def pair(pair)
          return if type(pair) != :AssocNode || pair.value.nil? || type(pair.value) == :ImplicitNode

          start, finish = bounds(pair.value)
          Argument.new(offset(pair.location.start_offset), start, finish)
        end

        def bounds(node)
          [offset(node.location.start_offset), offset(node.location.end_offset)]
        end

        def heredoc?(node)
          return true if node.respond_to?(:opening_loc) && node.opening_loc&.slice&.start_with?("<<")

          node.compact_child_nodes.any? { |child| heredoc?(child) }
        end

        # `call` is the one it belongs to, if its place matters.
        def block_node(node, call)
          block = Block.new(nil, nil, nil, nil, node.parameters ? names(node.parameters) : [], false, false)
          block.rescues = node.body && type(node.body) == :BeginNode
          place(block, node) if call
          Node.new(:block, nil, node.body ? [node(node.body)] : [], block)
        end

        def place(block, node)
          parameters = node.parameters
          parameters = nil if parameters && type(parameters) != :BlockParametersNode
          block.plain = parameters.nil? || one_name?(parameters)
          body = block.plain && parameters ? parameters.closing_loc : node.opening_loc
          block.start, block.body_start = offset(node.opening_loc.start_offset), offset(body.end_offset)
          block.body_finish, block.finish = offset(node.closing_loc.start_offset), offset(node.closing_loc.end_offset)
        end

        def one_name?(parameters)
          return false if parameters.locals.any? || parameters.parameters.nil?

          list = parameters.parameters.compact_child_nodes
          list.size == 1 && type(list[0]) == :RequiredParameterNode
        end

        # All names in a list of parameters.
        def names(node)
          own = node.respond_to?(:name) && node.name ? [node.name.to_s] : []
          own + node.compact_child_nodes.flat_map { |child| names(child) }
        end
      end
    end
  end
end
