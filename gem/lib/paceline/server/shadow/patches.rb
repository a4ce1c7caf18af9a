# frozen_string_literal: true

# The changes that `paceline doctor` tries in a shadow: those that a line of the application's code or settings would make, and what-ifs,
# in which something slow takes no time. `sql_clock` is for scheduled pages. Each changes this process only, and is never taken back: the shadow ends after its trial.
module Paceline
  module Server
    module Shadow
      module Patches
        # This patch changes nothing here; the message says why, in plain words.
        class Inapplicable < StandardError; end

        # The gem's own libraries, which the application may not have in its Gemfile.
        LIBRARIES = File.expand_path("../../..", __dir__)
        # File and class of each, by the name in the driver's command.
        NAMES = {
          "async_mail" => :AsyncMail, "cache_store" => :CacheStore, "database_copy" => :DatabaseCopy, "free_line" => :FreeLine, "free_method" => :FreeMethod, "free_middleware" => :FreeMiddleware, "free_records" => :FreeRecords, "free_sql" => :FreeSql,
          "free_view" => :FreeView, "http_install" => :HttpInstall, "index" => :Index, "log_level" => :LogLevel, "one_write" => :OneWrite,
          "parallel_outbound" => :ParallelOutbound, "perform_caching" => :PerformCaching, "pstore" => :Pstore, "pstore_copy" => :PstoreCopy,
          "session_store" => :SessionStore, "sql_clock" => :SqlClock, "template_caching" => :TemplateCaching, "xml" => :Xml, "xml_mini" => :XmlMini
        }.freeze
        private_constant :NAMES

        module_function

        # Makes the change `name` in this process, before its first replay. `params`: what stands beside the name in the command. `shadow`: answers
        # `root`, `app`, `app=`, `tmpdir` and `on_replay { |id, is_first| }`. Raises Inapplicable.
        def apply(name, params, shadow)
          kind = NAMES[name.to_s] or raise Inapplicable, "there is no patch #{name}"
          const_get(kind).apply((params || {}).to_h.transform_keys(&:to_s), shadow)
        rescue LoadError => e
          raise Inapplicable, e.message
        end

        # Loads a library of this gem: the one that the application would get.
        def load_library(name)
          $LOAD_PATH << LIBRARIES unless $LOAD_PATH.include?(LIBRARIES)
          require name
        end
      end
    end
  end
end

require_relative "patches/async_mail"
require_relative "patches/cache_store"
require_relative "patches/database_copy"
require_relative "patches/free_line"
require_relative "patches/free_method"
require_relative "patches/free_middleware"
require_relative "patches/free_records"
require_relative "patches/free_sql"
require_relative "patches/free_view"
require_relative "patches/http_install"
require_relative "patches/log_level"
require_relative "patches/one_write"
require_relative "patches/parallel_outbound"
require_relative "patches/pstore"
require_relative "patches/rails_caching"
require_relative "patches/session_store"
require_relative "patches/sql_clock"
require_relative "patches/xml"
