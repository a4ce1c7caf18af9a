Rails.application.config.action_mailer.delivery_method = :smtp
Rails.application.config.action_mailer.smtp_settings = { address: "127.0.0.1", port: ENV.fetch("FAULT_SMTP_PORT").to_i, enable_starttls_auto: false }
Rails.application.config.active_job.queue_adapter = :async
