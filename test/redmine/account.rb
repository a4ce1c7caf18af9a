# Run inside a Redmine with an empty database: loads the default data, gives admin a password and an API key, and makes one public project.
require "json"

account = { "login" => "admin", "password" => "pull-together-7", "api_key" => "5eed" * 10, "project" => "brewhouse" }

Redmine::DefaultData::Loader.load("en")

Setting.rest_api_enabled = "1"
Setting.default_language = "en"

admin = User.find_by!(login: account["login"])
admin.password = admin.password_confirmation = account["password"]
admin.must_change_passwd = false
admin.language = "en"
admin.save!
token = Token.find_or_initialize_by(user_id: admin.id, action: "api")
token.save!
token.update_column(:value, account["api_key"])

project = Project.find_or_initialize_by(identifier: account["project"])
project.name = "Brewhouse"
project.is_public = true
project.enabled_module_names = %w[issue_tracking wiki files news]
project.trackers = Tracker.all
project.save!

File.write(Rails.root.join("account.json"), JSON.pretty_generate(account))
