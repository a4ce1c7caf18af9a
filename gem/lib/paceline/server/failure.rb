# frozen_string_literal: true

# An exception that kept the app from starting, as the pairs of a FAILED frame: what, where, why, and what the
# library that raised it has to say. Never raises itself, and never loads a library to explain another.
module Paceline
  module Server
    class Failure
      MAX_TEXT = 256 * 1024
      MAX_CAUSES = 5
      OWN = File.join(File.expand_path("..", __dir__), "")
      private_constant :OWN

      def initialize(error, step:, root:)
        @error = error
        @step = step
        @root = root
      end

      def to_h
        file, line = place
        {
          "step" => @step, "class" => name(@error), "message" => text(message_of(@error)),
          "file" => file, "line" => line, "backtrace" => text(backtrace.join("\n")),
          "cause" => cause, "detail" => text(detail)
        }
      end

      # A failed start also names the versions of what was loaded by then.
      def of_start
        to_h.merge(AppLoader.versions)
      end

      # Class, message and backtrace, as Ruby would print them.
      def report
        ["#{name(@error)}: #{message_of(@error)}", *backtrace].join("\n\t").b << "\n"
      end

      # file and line of the error: of a syntax error the file it is in, else the innermost frame below the root, or of a gem.
      def place
        syntax_place || frame_place || ["", ""]
      end

      # Without the frames of this gem that the app was loaded from.
      def backtrace
        frames = frames_of(@error)
        first = frames.rindex { |frame| !frame.start_with?(OWN) }
        first ? frames[0..first] : frames
      end

      private

      def frames_of(error)
        Array(error.backtrace).map { |frame| utf8(frame) }
      rescue Exception # of the app's own class, as below
        []
      end

      def name(error)
        utf8(error.class.name || error.class.inspect)
      rescue Exception
        "Exception"
      end

      def message_of(error)
        return exit_message(error) if error.is_a?(SystemExit)
        # Of a class without a name, as config/puma.rb is read in, Ruby shows the inside.
        utf8(error.message).sub(/\A(uninitialized constant )#<.+>::/, '\\1')
      rescue Exception => e
        "(its message raised #{name(e)})"
      end

      # A text that can be searched and put beside others, whatever bytes and encoding the app gave it.
      def utf8(text)
        text = String.new("#{text}")
        text.force_encoding(Encoding::UTF_8) if text.encoding == Encoding::BINARY
        text.encode(Encoding::UTF_8, invalid: :replace, undef: :replace).scrub
      rescue EncodingError # one that Ruby can't convert
        text.force_encoding(Encoding::UTF_8).scrub
      end

      # `abort("words")` carries its words; a bare `exit` only "exit".
      def exit_message(error)
        words = utf8(error.message)
        return words unless ["exit", "abort", "", "SystemExit"].include?(words)
        "the application called exit with status #{error.status}#{" while it was starting" unless @step == "request"}"
      end

      def syntax_place
        return unless @error.is_a?(SyntaxError)
        path = @error.respond_to?(:path) ? @error.path : nil
        words = message_of(@error)
        if (found = words[/\A--> (.+)$/, 1]) # syntax_suggest rewrites the message
          path ||= found
        end
        match = words.match(/^(.+?):(\d+): /) || words.match(/^(.+?):(\d+):/)
        return [path || match[1], match[2]] if match
        number = words[/^> *(\d+) \|/, 1]
        path ? [path, number.to_s] : nil
      end

      def frame_place
        match = (backtrace.find { |frame| inside?(frame) } || backtrace.find { |frame| !frame.start_with?("<internal:") })&.match(/\A(?:\(eval at )?(.+?):(\d+)/)
        match && [match[1], match[2]]
      end

      # A frame of the app's own code.
      def inside?(frame)
        @roots ||= [@root.to_s, (File.realpath(@root.to_s) rescue @root.to_s)].map { |root| File.join(root, "") }
        frame.delete_prefix("(eval at ").start_with?(*@roots) && !frame.include?("/vendor/bundle/")
      end

      # Of a chain that is wrapped several times the last one is what happened.
      def cause
        text(causes.map { |cause| "#{name(cause)}: #{message_of(cause)}" }.join("\ncaused by "))
      rescue Exception
        ""
      end

      def causes
        found = [@error]
        while found.size <= MAX_CAUSES && (cause = found.last.cause).is_a?(Exception) && found.none?(cause)
          found << cause
        end
        found.drop(1)
      end

      def detail
        [detailed, suggestions, bundler, load_path, looked_up_in, exit_status].compact.map { |words| utf8(words) }.reject(&:empty?).uniq.join("\n")
      rescue Exception
        ""
      end

      # Ruby 3.2 and newer: the message with did_you_mean's, error_highlight's and syntax_suggest's additions.
      def detailed
        return unless @error.respond_to?(:detailed_message)
        # To point into a line of a gem is no help in a report.
        pointing = inside?(backtrace.first.to_s) ? {} : { error_highlight: false }
        words = @error.detailed_message(highlight: false, **pointing).to_s
        words unless words == "#{message_of(@error)} (#{name(@error)})"
      end

      def suggestions
        return unless @error.respond_to?(:corrections)
        found = @error.corrections
        "Did you mean? #{found.join(", ")}" unless found.nil? || found.empty?
      end

      def bundler
        return unless name(@error).start_with?("Bundler::")
        words = ["Bundler: #{message_of(@error)}"]
        words << "Bundler exit status #{@error.status_code}" if @error.respond_to?(:status_code)
        words << "Gemfile: #{ENV["BUNDLE_GEMFILE"]}" if ENV["BUNDLE_GEMFILE"]
        words.join("\n")
      end

      def load_path
        return unless @error.is_a?(LoadError)
        missing = @error.path
        "cannot load: #{missing}" if missing
      end

      # A variable of the environment and the key of a Hash are missed in the same words.
      def looked_up_in
        return unless @error.instance_of?(KeyError) && !@error.receiver.equal?(ENV)
        "looked up in: #{@error.receiver.class}"
      rescue ArgumentError # it has none
        nil
      end

      # With which status the application ended the process (`exit 3` while it loads): SystemExit's message is only "exit".
      def exit_status
        return unless @error.is_a?(SystemExit)
        words = "status #{@error.status}"
        "exit #{words}" unless message_of(@error).include?(words)
      end

      def text(words)
        words = words.to_s.b
        words.bytesize > MAX_TEXT ? words.byteslice(0, MAX_TEXT) : words
      end
    end
  end
end
