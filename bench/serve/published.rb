# frozen_string_literal: true

# Tables in documents that are made from results: between `<!-- bin/bench serve --readme A.json ... -->` (or `--combine`) and `<!-- end -->` stands what that command
# prints, and nothing else. Paths of results are relative to bench/results.
require_relative "combined"
require_relative "readme"

module Bench
  module Published
    DOCUMENTS = %w[README.md docs/benchmarks.md].freeze
    BLOCK = %r{^<!-- bin/bench serve --(readme|combine) ([^>]*?) -->\n.*?^<!-- end -->$}m
    RESULTS = "bench/results"

    module_function

    # TEXT with its tables made anew. ROOT: the checkout.
    def renew(text, root)
      text.gsub(BLOCK) do |block|
        how, names = Regexp.last_match.captures
        "#{block.lines.first}\n#{table(how, names.split.map { |name| File.join(root, RESULTS, name) })}\n<!-- end -->"
      end
    end

    # What `bin/bench serve --HOW FILES` prints.
    def table(how, files)
      combined = Combined.read(files)
      how == "readme" ? Readme.new(combined).markdown : combined.markdown
    end

    # Files whose tables are others now.
    def write(root)
      DOCUMENTS.filter do |name|
        path = File.join(root, name)
        before = File.read(path)
        after = renew(before, root)
        File.write(path, after) unless after == before
        after != before
      end
    end
  end
end
