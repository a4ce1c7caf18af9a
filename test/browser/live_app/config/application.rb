# A small Rails application for live_reload.test.mjs, which edits a copy of it.
require "action_controller/railtie"
require "action_view/railtie"

class LiveApp < Rails::Application
  config.load_defaults 6.1
  config.root = File.expand_path("..", __dir__)
  config.secret_key_base = "only for tests" * 4
  config.hosts.clear
  config.logger = Logger.new(IO::NULL)
  config.content_security_policy do |policy|
    policy.default_src :self
    policy.script_src :self
    policy.style_src :self, :unsafe_inline
  end
  config.content_security_policy_nonce_generator = ->(_request) { SecureRandom.base64(16) }
  config.content_security_policy_nonce_directives = %w[script-src]
end
