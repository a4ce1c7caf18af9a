# frozen_string_literal: true

require_relative "ripper_tokens"

module Paceline
  module XML
    module Template
      # Reads a template by Ripper. Ripper tells what belongs together but not where it ends: that is found by the tokens.
      class RipperReader
        include Reader

        # Keeps all tokens, and for each call without parentheses how many there were when it was complete.
        class Parser < Ripper::SexpBuilderPP
          attr_reader :tokens

          def initialize(...)
            super
            @tokens = []
          end

          SCANNER_EVENTS.each do |event|
            define_method(:"on_#{event}") do |token|
              @tokens << [event, token, lineno, column, state]
              super(token)
            end
          end

          def on_command_call(*)
            super << @tokens.size
          end

          def on_stmts_new
            [:stmts]
          end
        end

        JUMPS = { next: "next", break: "break", redo: "redo", retry: "retry", return: "return", return0: "return", yield: "yield",
                  yield0: "yield", super: "super", zsuper: "super" }.freeze
        BRANCHES = %i[if unless case begin].freeze
        CONTINUATIONS = %i[elsif else when in bodystmt rescue ensure].freeze
        REFUSED = %i[def defs class module sclass alias var_alias undef BEGIN END].freeze
        private_constant :Parser, :JUMPS, :BRANCHES, :CONTINUATIONS, :REFUSED

        def read
          parser = Parser.new(@text)
          tree = parser.parse
          raise Reader::Unreadable if tree.nil? || parser.error?

          # Delimited by what the parser had seen, before the tokens are put in order.
          @seen = parser.tokens
          @tokens = RipperTokens.new(@text, parser.tokens)
          body(tree)
        end

        def valid?
          parser = Ripper.new(@text)
          parser.parse
          !parser.error?
        end

        private

        # What stands in the method around the template, which has to be the only one.
        def body(tree)
          statements = tree[1].drop(1)
          raise Reader::Unreadable unless statements.size == 1 && statements[0][0] == :def

          _, (_, *inner), *rescues = statements[0][3]
          list = node([:stmts, *inner.drop(inner.index { |statement| first_line(statement).to_i > 1 } || inner.size)])
          rescues.any? ? Node.new(:branch, nil, [list, *nodes(rescues)]) : list
        end

        def first_line(sexp)
          return sexp[0] if sexp.size == 2 && sexp.all?(Integer)

          sexp.each do |part|
            line = first_line(part) if part.is_a?(Array)
            return line if line
          end
          nil
        end

        def nodes(sexp)
          sexp.filter_map { |part| node(part) if part.is_a?(Array) }
        end

        def node(sexp)
          type = sexp[0]
          return Node.new(:other, nil, nodes(sexp)) unless type.is_a?(Symbol)
          raise Reader::Unreadable if REFUSED.include?(type)
          return token_node(sexp) if type.start_with?("@")
          return Node.new(:jump, JUMPS[type], nodes(sexp)) if JUMPS.key?(type)
          return Node.new(:branch, nil, nodes(sexp)) if BRANCHES.include?(type)
          return Node.new(:branch, :continued, nodes(sexp) + patterns(sexp)) if CONTINUATIONS.include?(type)

          respond_to?(:"node_of_#{type}", true) ? send(:"node_of_#{type}", sexp) : Node.new(:other, nil, nodes(sexp))
        end

        # A name that none of the methods below has taken is assigned, for all that is known.
        def token_node(sexp)
          sexp[0] == :@ident ? Node.new(:assign, sexp[1], []) : Node.new(:other, nil, [])
        end

        def node_of_stmts(sexp)
          Node.new(:list, nil, nodes(sexp))
        end

        def node_of_var_ref(sexp)
          sexp[1][0] == :@ident ? Node.new(:read, sexp[1][1], []) : Node.new(:other, nil, [])
        end

        def node_of_vcall(sexp)
          Node.new(:word, sexp[1][1], [], :bare)
        end
        alias node_of_fcall node_of_vcall

        def node_of_command(sexp)
          Node.new(:word, sexp[1][1], nodes(sexp[2]), :bare)
        end

        def node_of_symbol(_sexp)
          Node.new(:other, nil, [])
        end

        def node_of_field(sexp)
          Node.new(:other, nil, [node(sexp[1])])
        end

        # `key:` alone reads the variable or calls the method of this name.
        def node_of_assoc_new(sexp)
          return Node.new(:read, sexp[1][1].chomp(":"), []) if sexp[2].nil? && sexp[1][0] == :@label

          Node.new(:other, nil, nodes(sexp))
        end

        # Statements that a modifier holds for.
        def node_of_if_mod(sexp)
          Node.new(:branch, nil, [node(sexp[1]), Node.new(:list, nil, [node(sexp[2])])])
        end
        alias node_of_unless_mod node_of_if_mod

        def node_of_while_mod(sexp)
          Node.new(:loop, nil, [node(sexp[1]), Node.new(:list, nil, [node(sexp[2])])])
        end
        alias node_of_until_mod node_of_while_mod

        def node_of_while(sexp)
          Node.new(:loop, nil, nodes(sexp))
        end
        alias node_of_until node_of_while
        alias node_of_for node_of_while

        # What a pattern assigns, by its keys too.
        def patterns(sexp)
          sexp[0] == :in ? [Node.new(:opaque, nil, labels(sexp[1]).map { |name| Node.new(:assign, name, []) })] : []
        end

        def labels(sexp)
          return [sexp[1].chomp(":")] if sexp[0] == :@label

          sexp.grep(Array).flat_map { |part| labels(part) }
        end

        def node_of_binary(sexp)
          names = sexp[2] == :=~ && sexp[1][0] == :regexp_literal ? sexp[1].flatten.grep(String).join.scan(/\(\?<(\w+)>/).flatten : []
          return Node.new(:other, nil, nodes(sexp)) if names.empty?

          Node.new(:opaque, nil, nodes(sexp) + names.map { |name| Node.new(:assign, name, []) })
        end

        def node_of_lambda(sexp)
          Node.new(:block, nil, [node(sexp[2])], Block.new(nil, nil, nil, nil, names(sexp[1]), false, false))
        end

        def node_of_call(sexp)
          call_node(sexp)
        end
        alias node_of_command_call node_of_call
        alias node_of_method_add_arg node_of_call
        alias node_of_method_add_block node_of_call

        def call_node(sexp)
          block = arguments = nil
          inner = sexp
          _, inner, block = inner if inner[0] == :method_add_block
          _, inner, arguments = inner if inner[0] == :method_add_arg
          return other_call(sexp, block) unless on_variable?(inner)

          call, last = call(inner, arguments)
          block = block && block_node(block, @tokens.after(last))
          call.block = block&.detail
          children = arguments || inner[4] ? nodes(arguments || inner[4]) : []
          Node.new(:call, inner[1][1][1], [*children, *[block].compact], call)
        end

        def on_variable?(sexp)
          %i[call command_call].include?(sexp[0]) && sexp[1][0] == :var_ref && sexp[1][1][0] == :@ident &&
            sexp[2].is_a?(Array) && sexp[2][0] == :@period && sexp[3].is_a?(Array)
        end

        def other_call(sexp, block)
          case sexp[0]
          when :method_add_block
            Node.new(:other, nil, [node(sexp[1]), block_node(block, nil)])
          when :call, :command_call
            Node.new(:word, sexp[3].is_a?(Array) ? sexp[3][1] : "call", [node(sexp[1]), *[sexp[4] && node(sexp[4])].compact])
          else
            Node.new(:other, nil, nodes(sexp))
          end
        end

        # The Call of [:call, receiver, period, name] or of [:command_call, receiver, period, name, arguments, tokens], and the index of
        # its last token.
        def call(sexp, parenthesized)
          receiver = @tokens.index_at(sexp[1][1][2])
          selector = @tokens.index_at(sexp[3][2])
          list = last = nil
          if sexp[0] == :command_call
            last = last_argument(sexp[5])
            list = arguments(sexp[4], selector + 1..last)
          elsif @tokens[selector + 1].type == :lparen
            last = @tokens[selector + 1].closing
            list = parenthesized ? arguments(parenthesized[1], selector + 2..last - 1) : nil
          else
            last = selector
            list = []
          end
          list = nil unless selector == receiver + 2
          start, selector_finish, finish = @tokens[receiver].start, @tokens[selector].finish, @tokens[last].finish
          [Call.new(offset(start), sexp[3][1], offset(selector_finish), list, offset(finish)), last]
        end

        # The index of the last token of a call without parentheses, when `count` tokens had been seen: the last of them ends it.
        def last_argument(count)
          line_over = false
          loop do
            count -= 1
            type, text, = @seen[count]
            break unless RipperTokens::BLANK.include?(type)

            line_over ||= text.include?("\n")
          end
          index = @tokens.index_at(@seen[count][2, 2])
          line_over ? index : @tokens.before(index)
        end

        # The Arguments that stand in the tokens `range`; nil if they are not plain.
        def arguments(sexp, range)
          return [] if sexp.nil?
          return if @tokens.any?(range, :heredoc_beg)

          if sexp[0] == :args_add_block
            return if sexp[2]

            sexp = sexp[1]
          end
          return unless sexp.all?(Array)

          *positional, last = sexp
          pairs = last && %i[bare_assoc_hash hash].include?(last[0]) ? pairs(last) : nil
          positional << last unless pairs
          return if positional.any? { |argument| argument[0] == :hash }

          pieces(positional, pairs || [], range, pairs && last[0] == :hash)
        end

        def pairs(hash)
          hash[0] == :hash ? hash[1] && hash[1][1] : hash[1]
        end

        def pieces(positional, pairs, range, braces)
          return if pairs.any? { |pair| pair[0] != :assoc_new || pair[2].nil? }

          pieces = @tokens.pieces(range)
          pieces = [whole(range)] if positional.size == 1 && pairs.empty?
          pieces = pieces[0..-2] + inside(pieces.last) if braces
          return unless pieces.size == positional.size + pairs.size

          pieces.each_with_index.map { |piece, index| index < positional.size ? argument(piece) : pair(piece) }
        end

        # One argument may have commas of its own: `xml.title truncate text, length: 20`.
        def whole(range)
          range = @tokens.trim(range.begin, range.end)
          @tokens[range.end].type == :comma ? @tokens.trim(range.begin, range.end - 1) : range
        end

        def inside(braces)
          @tokens.pieces(braces.begin + 1..braces.end - 1)
        end

        def argument(piece)
          Argument.new(nil, offset(@tokens[piece.begin].start), offset(@tokens[piece.end].finish))
        end

        # `key: value`, `"key": value` or `key => value`.
        def pair(piece)
          index = piece.begin
          until %i[label label_end].include?(@tokens[index].type) || (@tokens[index].type == :op && @tokens[index].text == "=>")
            closing = @tokens[index].closing
            index = closing && @tokens[closing].type == :label_end ? closing : (closing || index) + 1
          end
          value = @tokens.after(index)
          Argument.new(offset(@tokens[piece.begin].start), offset(@tokens[value].start), offset(@tokens[piece.end].finish))
        end

        # [:do_block, parameters, [:bodystmt ...]] or [:brace_block, parameters, statements]. `open` is the index of its first token, if its
        # place matters.
        def block_node(sexp, open)
          return Node.new(:other, nil, nodes(sexp)) unless %i[do_block brace_block].include?(sexp[0])

          block = Block.new(nil, nil, nil, nil, names(sexp[1]), false, sexp[2][0] == :bodystmt && sexp[2][2, 3].any?)
          place(block, open, sexp[1]) if open
          Node.new(:block, nil, [node(sexp[2])], block)
        end

        def place(block, open, parameters)
          bar = @tokens.after(open)
          plain = parameters && @tokens[bar].text == "|" && @tokens[@tokens.after(bar)].type == :ident &&
                  @tokens[@tokens.after(@tokens.after(bar))].text == "|"
          block.plain = parameters.nil? || plain
          body = plain ? @tokens.after(@tokens.after(bar)) : open
          close = @tokens[open].closing
          block.start, block.body_start = offset(@tokens[open].start), offset(@tokens[body].finish)
          block.body_finish, block.finish = offset(@tokens[close].start), offset(@tokens[close].finish)
        end

        # All names in a list of parameters.
        def names(sexp)
          return [] unless sexp.is_a?(Array)
          return [sexp[1]] if sexp[0] == :@ident
          return [sexp[1].chomp(":")] if sexp[0] == :@label

          sexp.flat_map { |part| names(part) }
        end
      end
    end
  end
end
