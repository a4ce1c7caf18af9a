Rails.application.configure do
  config.cache_classes = true
  config.eager_load = true
  config.consider_all_requests_local = false
  config.public_file_server.enabled = false
  config.log_level = :info
  config.active_support.deprecation = :silence
  config.cache_store = :paceline_file_store, "tmp/cache.paceline", { size: 64 << 20 }
end
