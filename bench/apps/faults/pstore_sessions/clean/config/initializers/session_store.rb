Rails.application.config.session_store :paceline_store, key: "_shop", store: "storage/sessions.paceline"
