# frozen_string_literal: true

require_relative "labels"

module Paceline
  class Context
    # Begins each line of a log with whose it is, at the moment when it is written: `[user:42] [request_id:ab12]`. Outside a request it adds nothing.
    #
    #   Paceline::Context::LogTags.install(logger, [:user, :request_id])
    module LogTags
      # Has this Logger say these names (see Labels.names); its formatter remains what it is. Again: with other names.
      def self.install(logger, names = true)
        names = Labels.names(names)
        # Whoever has a Logger has loaded it: Ruby's is a gem that the application may not have.
        logger.formatter ||= ::Logger::Formatter.new
        logger.formatter.extend(self)
        logger.formatter.paceline_names = names
        logger
      end

      attr_writer :paceline_names

      def call(severity, time, progname, message)
        message = "#{paceline_tags}#{message}" if message.is_a?(String)
        super
      end

      private

      def paceline_tags
        @paceline_names.map { |name| (label = Labels[name]) && "[#{name}:#{label.gsub(/[\s\[\]]/, "_")}] " }.join
      end
    end
  end
end
