require "securerandom"

# A guide somebody tries out should start without a key being made first. A real one sets SECRET_KEY_BASE.
ENV["SECRET_KEY_BASE"] ||= begin
  file = Rails.root.join("tmp/secret_key_base")
  unless file.exist?
    file.dirname.mkpath
    file.write(SecureRandom.hex(64), perm: 0o600)
  end
  file.read
end

Rails.application.configure do
  config.cache_classes = true
  config.eager_load = true
  config.consider_all_requests_local = false
  config.action_controller.perform_caching = true
  config.public_file_server.enabled = ENV["RAILS_SERVE_STATIC_FILES"].present?
  config.cache_store = :memory_store
  config.log_level = :info
  config.log_tags = [:request_id]
  config.i18n.fallbacks = true
  config.active_support.deprecation = :notify

  if ENV["RAILS_LOG_TO_STDOUT"].present?
    logger = ActiveSupport::Logger.new($stdout)
    logger.formatter = ::Logger::Formatter.new
    config.logger = ActiveSupport::TaggedLogging.new(logger)
  end
end
