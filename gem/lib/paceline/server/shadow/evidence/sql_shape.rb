# frozen_string_literal: true

# SQL without its values: queries that differ only in them have one shape. It never runs anything. Each rule takes linear time.
module Paceline
  module Server
    module Shadow
      class Evidence
        module SqlShape
          # In the order in which they are tried. `$tag$ ... $tag$` is PostgreSQL's.
          REST = <<~'REGEXP'
            (?<space> \s++ | --[^\n]*+ | /\*.*?(?:\*/|\z) )
            | (?<literal> [bBxXnN]?'(?:[^']++|'')*+'? | [eE]'(?:[^'\\]++|\\.|'')*+'?
                | \$\d++ | \$(?<tag>\w*+)\$.*?(?:\$\k<tag>\$|\z)
                | \?\d*+ | (?:(?<![:\w\x80-\xff])[:@]\w++) | 0[xX]\h++ | (?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d++)? )
            | (?<name> "(?:[^"]++|"")*+"? | `(?:[^`]++|``)*+`? )
            | (?<word> [A-Za-z_\x80-\xff][\w$\x80-\xff]*+ )
            | (?<sign> :: | <> | <= | >= | != | == | \|\| | ->> | -> | .)
          REGEXP
          TOKEN = Regexp.new(REST, Regexp::EXTENDED | Regexp::MULTILINE | Regexp::NOENCODING)
          # MySQL's: a backslash escapes, and "text" is a literal.
          MYSQL = Regexp.new("(?<literal> [bBxXnN]?'(?:[^'\\\\]++|\\\\.|'')*+'? | \"(?:[^\"\\\\]++|\\\\.|\"\")*+\"? ) | #{REST.gsub("--[^", "(?:--|\\#)[^")}",
                             Regexp::EXTENDED | Regexp::MULTILINE | Regexp::NOENCODING)
          KINDS = %w[space literal name word sign].freeze
          # After these a sign belongs to the number behind it.
          BEFORE_SIGNED = %w[( , = < > <= >= <> != == + - * / % ||].to_h { |sign| [sign, true] }.freeze
          LIST = /\bIN ?\(\?(?:, ?\?)*+\)/i.freeze
          private_constant :REST, :TOKEN, :MYSQL, :KINDS, :BEFORE_SIGNED, :LIST

          module_function

          # `adapter`: as "sqlite3".
          def of(sql, adapter = "")
            shape = +""
            spaced = false
            tokens(sql, adapter).each do |kind, text|
              next spaced = true if kind == :space

              shape << " " if spaced && !shape.empty?
              spaced = false
              shape << (kind == :literal ? "?" : text)
            end
            shape.force_encoding(Encoding::UTF_8).scrub("?").gsub(LIST, "IN (?)")
          end

          # [kind, text] of each token; kinds are :space (comments, too), :literal, :name (quoted), :word and :sign.
          def tokens(sql, adapter = "")
            found = []
            sql.b.scan(adapter.match?(/mysql|trilogy/i) ? MYSQL : TOKEN) { found << kind_and_text($~) }
            join_signs(found)
          end

          def kind_and_text(match)
            [KINDS.find { |kind| match[kind] }.to_sym, match[0]]
          end
          private_class_method :kind_and_text

          # -5 is one literal, and 3 - 5 are two.
          def join_signs(tokens)
            joined = []
            before = nil
            tokens.each_with_index do |token, index|
              kind, text = token
              next if kind == :sign && "-+".include?(text) && tokens[index + 1]&.first == :literal && (before.nil? || BEFORE_SIGNED[before])

              joined << token
              before = text unless kind == :space
            end
            joined
          end
          private_class_method :join_signs
        end
      end
    end
  end
end
