# As Rails generates it: code is loaded again where it has changed, errors are shown.
Rails.application.configure do
  config.cache_classes = false
  config.eager_load = false
  config.consider_all_requests_local = true
end
