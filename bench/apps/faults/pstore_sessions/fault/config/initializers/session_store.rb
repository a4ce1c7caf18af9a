require Rails.root.join("lib/pstore_sessions").to_s
Rails.application.config.session_store PStoreSessions, key: "_shop"
