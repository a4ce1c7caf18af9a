# frozen_string_literal: true

# Where in the application something happened. It only looks at backtraces, and never at the files.
module Paceline
  module Server
    module Shadow
      class Place
        # Folders below the root whose code is not the application's. A gem in vendor/gems mostly is its own; Bundler installs those of others elsewhere.
        FOREIGN = %r{\A(?:vendor/(?!gems/)|\.bundle/|node_modules/)|(?<!\Avendor)/gems/}
        # A line of a backtrace that is only text.
        LINE = /\A(.+?):(\d+)(?::|\z)/
        private_constant :FOREIGN, :LINE

        # `root`: the application's folder.
        def initialize(root)
          @prefixes = [root, real(root)].uniq.map { |folder| "#{folder.chomp("/")}/" }
        end

        # Of the innermost frame of the application, as `app/models/visit.rb:4`; empty: there is none.
        def of(locations)
          (locations || []).each do |location|
            path, line = location.is_a?(String) ? location.match(LINE)&.captures : [location.absolute_path || location.path, location.lineno]
            name = path && relative(path)
            return "#{name}:#{line}" if name
          end
          ""
        end

        # A path below the root without it; nil: it is not the application's.
        def relative(path)
          prefix = @prefixes.find { |one| path.start_with?(one) } or return
          name = path.delete_prefix(prefix)
          name unless FOREIGN.match?(name)
        end

        private

        def real(root)
          File.realpath(root)
        rescue SystemCallError
          root
        end
      end
    end
  end
end
