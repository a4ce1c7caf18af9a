# frozen_string_literal: true

# What an app gets when it requires the gem: the version, the spans of the request in hand, when its page changes, the context of a request,
# audits, the page cache and fragments of pages. Starts nothing.
require_relative "paceline/version"
# Within an app that Paceline serves the server's own is there already.
require_relative "paceline/cache" unless defined?(Paceline::Cache)
require_relative "paceline/spans"
require_relative "paceline/changes" unless Paceline.respond_to?(:changes_at)
require_relative "paceline/esi"
require_relative "paceline/context"
# With Active Record, when it is named first.
Paceline.autoload :Audit, File.expand_path("paceline/audit.rb", __dir__)
require_relative "paceline/railtie" if defined?(Rails::Railtie)
