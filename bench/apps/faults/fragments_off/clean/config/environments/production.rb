Rails.application.configure do
  config.cache_classes = true
  config.eager_load = true
  config.consider_all_requests_local = false
  config.public_file_server.enabled = false
  config.log_level = :info
  config.action_controller.perform_caching = true
  config.cache_store = :memory_store
  config.active_support.deprecation = :silence
end
