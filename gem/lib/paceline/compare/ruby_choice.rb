# frozen_string_literal: true

require "open3"

module Paceline
  module Compare
    # Which Ruby runs the application of a folder: the one that was given, or the one that the folder's own files name and that is installed
    # here. Installs nothing, and changes no file.
    class RubyChoice
      # Where version managers put `bin/ruby`, below the home directory or at the top; VERSION may be followed by a patch level.
      PLACES = ["~/.rbenv/versions/VERSION", "~/.rvm/rubies/ruby-VERSION", "~/.asdf/installs/ruby/VERSION", "~/.local/share/mise/installs/ruby/VERSION",
                "~/.rubies/ruby-VERSION", "/opt/rubies/ruby-VERSION"].freeze
      NAMED = /\d+(?:\.\d+){1,2}/
      private_constant :PLACES, :NAMED

      # For `--ruby`: a path, or a name in PATH.
      attr_reader :command
      # What should be known about the choice, or nil.
      attr_reader :remark

      def initialize(dir, given, home: Dir.home, path: ENV.fetch("PATH", ""))
        @dir = dir
        @home = home
        @path = path
        @command = given ? full(given, Dir.pwd) : own
      end

      # Whether it is the terminal's own, with its gems.
      def usual?
        @command == "ruby"
      end

      private

      def own
        configured = text("paceline.toml")[/\A(?:(?!^\s*\[).)*?^\s*ruby\s*=\s*"([^"]+)"/m, 1]
        return full(configured, @dir) if configured
        file, version = wanted
        return "ruby" if version.nil? || usual_version == version || usual_version.start_with?("#{version}.")
        installed(version) || missing(file, version)
      end

      # [the file that names it, the version]
      def wanted
        { ".ruby-version" => /\A\s*(?:ruby-)?(#{NAMED})\s*$/, ".tool-versions" => /^ruby\s+(#{NAMED})/, "Gemfile" => /^\s*ruby[\s(]+["'](#{NAMED})["']/ }
          .each { |file, pattern| (version = text(file)[pattern, 1]) and return [file, version] }
        nil
      end

      def missing(file, version)
        @remark = "#{@dir}: #{file} names Ruby #{version}, which was not found here; the Ruby in PATH is #{usual_version.empty? ? "missing" : usual_version}. Name another one by --ruby-a or --ruby-b."
        "ruby"
      end

      # The newest one of this version.
      def installed(version)
        managed = PLACES.flat_map { |place| Dir["#{place.sub("~", @home).sub("VERSION", version)}{,.*,-*}/bin/ruby"] }
        found = managed.max_by { |path| path.scan(/\d+/).map(&:to_i) }
        return found if found
        # Debian's name has two numbers.
        short = "ruby#{version[/\A\d+\.\d+/]}"
        @path.split(":").map { |folder| File.join(folder, short) }.find { |path| File.executable?(path) && version_of(path).start_with?(version) }
      end

      # In the folder: a version manager's `ruby` looks there, too.
      def usual_version
        @usual_version ||= version_of("ruby")
      end

      def version_of(ruby)
        out, status = Open3.capture2({ "PATH" => @path, "RUBYOPT" => nil }, ruby, "--disable=gems", "-e", "print RUBY_VERSION", chdir: @dir, err: File::NULL)
        status.success? ? out : ""
      rescue SystemCallError
        ""
      end

      def full(name, from)
        name.include?("/") ? File.expand_path(name, from) : name
      end

      def text(name)
        File.read(File.join(@dir, name), encoding: "UTF-8").scrub
      rescue SystemCallError
        ""
      end
    end
  end
end
