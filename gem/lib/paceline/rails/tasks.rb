# frozen_string_literal: true

# `bin/rails paceline:check`. Becomes the front's own command, which boots the application itself: no task before it does.
namespace :paceline do
  desc "Check Paceline's configuration and the application, without serving"
  task :check do
    require_relative "../front_binary"
    exec(Paceline::FrontBinary.find, "check", chdir: Rails.root.to_s)
  rescue Paceline::FrontBinary::Missing => e
    abort("paceline: #{e.message}")
  end
end
