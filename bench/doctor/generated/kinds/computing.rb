# frozen_string_literal: true

# What Ruby computes in each request, and needn't, or could in less.
module Bench
  module Generated
    module Kinds
      module_function

      # A constant of COUNT rows.
      def table(name, count, row = "{ title: \"item \#{i * 7919 % 10_007}\", cents: i * 37 % 4001 }") = "#{name} = Array.new(#{count}) { |i| #{row} }.freeze\n"

      add("regexp", "a regular expression that backtracks", says: "slow_line") do |pick|
        text, pattern = pick.constant, pick.constant
        match = pick.one(["#{text}.match?(#{pattern})", "(#{text} =~ #{pattern})", "#{text}.match(#{pattern})"])
        answer = "\"\#{#{match} ? \"yes\" : \"no\"} \#{number}\""
        # A back-reference, so that no Ruby remembers what did not match.
        Weave.new(constants: "#{text} = \"#{"ab" * pick.number(16..18)}!\".freeze\n", fault_constants: "#{pattern} = /\\A(a|b|ab)+\\1?\\z/\n", cure_constants: "#{pattern} = /\\A[ab]+\\z/\n",
                  fault: "#{answer} #!\n", cure: "#{answer}\n")
      end

      add("churn", "text made longer by +=", says: "slow_line") do |pick|
        rows, text = pick.constant, pick.one(%w[text output page result])
        add = ->(sign) { "#{text} = +\"\"\n#{rows}.each do |row|\n  #{text} #{sign} \"<li>\#{row[:title]} costs \#{row[:cents]} and is in stock in each of our warehouses in the north</li>\" #!\nend\n#{text}.size.to_s\n" }
        Weave.new(constants: table(rows, pick.number(1200..2000)), fault: add["+="], cure: add["<<"])
      end

      add("digest", "a chain of digests", says: "slow_line") do |pick|
        secret, key = pick.constant, pick.one(%w[key token code])
        chain = "(1..#{pick.number(4_000..9_000)}).inject(\"#{pick.noun}\") { |#{key}, _| Digest::SHA256.hexdigest(#{key}) }"
        Weave.new(requires: %w[digest], fault: "#{key} = #{chain} #!\n#{key}[number % 60, 4]\n", cure_constants: "#{secret} = #{chain}\n", cure: "#{secret}[number % 60, 4]\n")
      end

      add("sort", "a long list sorted in each request", says: "slow_line") do |pick|
        rows, sorted, list = pick.constant, pick.constant, pick.variable
        sort = pick.one(["#{rows}.sort_by { |row| [row[:title].downcase, row[:cents]] }", "#{rows}.sort { |one, other| one[:title] <=> other[:title] }"])
        Weave.new(constants: table(rows, pick.number(5_000..9_000)), fault: "#{list} = #{sort} #!\n#{list}[number % 50][:title]\n",
                  cure_constants: "#{sorted} = #{sort}\n", cure: "#{sorted}[number % 50][:title]\n")
      end

      add("nested_loop", "each of a list sought in another list", says: "slow_line") do |pick|
        one, other, set = pick.constant, pick.constant, pick.constant
        count = pick.number(1_000..1_800)
        find = pick.one(["#{other}.include?(title)", "#{other}.any? { |known| known == title }", "#{other}.index(title)"])
        Weave.new(requires: %w[set], constants: "#{table(one, count, "\"title \#{i}\"")}#{table(other, count, "\"title \#{i * 2}\"")}", fault: "#{one}.count { |title| #{find} }.to_s #!\n",
                  cure_constants: "#{set} = #{other}.to_set\n", cure: "#{one}.count { |title| #{set}.include?(title) }.to_s\n")
      end

      add("exceptions", "exceptions for what is usual", says: "slow_line") do |pick|
        fields = pick.constant
        Weave.new(constants: table(fields, pick.number(1500..3000), "i % 3 == 0 ? i.to_s : \"n/a\""),
                  fault: "#{fields}.sum do |text|\n  Integer(text) #!\nrescue ArgumentError #!\n  0\nend.to_s\n", cure: "#{fields}.sum { |text| text.match?(/\\A\\d+\\z/) ? text.to_i : 0 }.to_s\n")
      end

      add("deep_copy", "a deep copy by Marshal", says: "slow_line") do |pick|
        rows, copy = pick.constant, pick.one(%w[copy own draft])
        Weave.new(constants: table(rows, pick.number(1500..4000)), fault: "#{copy} = Marshal.load(Marshal.dump(#{rows})) #!\n#{copy}[number % #{copy}.size][:title].upcase\n",
                  cure: "#{rows}[number % #{rows}.size][:title].upcase\n")
      end

      add("password", "a password's hash in each request", says: "slow_line") do |pick|
        secret = pick.constant
        hash = "OpenSSL::PKCS5.pbkdf2_hmac(\"#{pick.noun}\", \"#{pick.noun}\", #{pick.number(12_000..30_000)}, 32, \"SHA256\").unpack1(\"H*\")"
        Weave.new(requires: %w[openssl], fault: "key = #{hash} #!\nkey[number % 60, 4]\n", cure_constants: "#{secret} = #{hash}\n", cure: "#{secret}[number % 60, 4]\n")
      end

      add("template", "templates compiled in each request", says: "slow_line") do |pick|
        source, rows, card = pick.constant, pick.constant, pick.constant
        Weave.new(requires: %w[erb], constants: "#{source} = \"<p class='card'><b><%= title %></b> <% if cents > 2000 %>dear<% else %>cheap<% end %> <%= cents %></p>\".freeze\n#{table(rows, pick.number(60..160))}",
                  fault: "#{rows}.map { |row| ERB.new(#{source}).result_with_hash(row) }.join.size.to_s #!\n",
                  cure_constants: "#{card} = Class.new { ERB.new(#{source}).def_method(self, \"result(title, cents)\") }.new\n", cure: "#{rows}.map { |row| #{card}.result(row[:title], row[:cents]) }.join.size.to_s\n")
      end
    end
  end
end
