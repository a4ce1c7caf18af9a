require Rails.root.join("lib/geography").to_s
Rails.application.config.middleware.use Geography
