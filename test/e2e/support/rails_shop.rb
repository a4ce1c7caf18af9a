# A Rails application in one file, in production and with what every one of them needs to start. What it does is the scenario's own.
module RailsShop
  # Its config.ru: `code` is what follows when it is initialized. `railties`: those that it has. `config`: more lines of its configuration. `log`: in its folder.
  def self.config_ru(code, railties:, config: [], log: "rails.log")
    <<~RUBY
      ENV["RAILS_ENV"] = "production"
      require "rails"
      #{railties.map { |name| "require \"#{name}/railtie\"" }.join("\n")}
      class Shop < Rails::Application
        config.root = __dir__
        config.load_defaults "\#{Rails::VERSION::MAJOR}.\#{Rails::VERSION::MINOR}"
        config.eager_load = false
        config.secret_key_base = "x" * 64
        config.hosts.clear
        config.logger = ActiveSupport::Logger.new(File.join(__dir__, "#{log}"))
        #{config.join("\n  ")}
      end
      Rails.application.initialize!
      #{code}
      run Rails.application
    RUBY
  end

  def skip_without_rails
    skip "Rails is not here" if Gem::Specification.find_all_by_name("rails").empty?
  end
end
