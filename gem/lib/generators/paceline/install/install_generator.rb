# frozen_string_literal: true

require "rails/generators/base"

# `bin/rails generate paceline:install`: writes paceline.toml, and has Procfile.dev and the Dockerfile start Paceline. The
# entry point of the image goes on preparing the database. What it does not recognize it leaves alone, and says so.
module Paceline
  module Generators
    class InstallGenerator < ::Rails::Generators::Base
      source_root File.expand_path("templates", __dir__)
      desc "Writes paceline.toml; Procfile.dev and the Dockerfile start Paceline."

      # The process `web` of a Procfile: Rails' own command, Puma's, or either by Bundler. What follows (-p 3000) stays as it is.
      WEB = %r{^(web:[ \t]*(?:env [^\n]*?)?)(?:bundle exec )?(?:(?:bin/)?rails (?:server|s)|puma)\b([^\n]*)$}
      # Rails' CMD, with Thruster or without, and Puma's, in the exec form.
      COMMAND = %r{^CMD[ \t]*\[[^\]\n]*(?:"(?:\./)?bin/rails"[ \t]*,[ \t]*"(?:server|s)"|"puma")[^\]\n]*\]$}
      # The condition of Rails' bin/docker-entrypoint (of 7.1 to 8.1), which prepares the database for `rails server` alone.
      ENTRYPOINT = %r{^if \[ [^\n]*"(?:\./bin/rails|\./bin/rails server)"[^\n]*; then$}
      ENTRYPOINT_CONDITION = 'if [ "${*:1:3}" == "bundle exec paceline" ]; then'
      DOCKER_COMMAND = 'CMD ["bundle", "exec", "paceline", "-b", "tcp://0.0.0.0:%s"]'

      def write_settings
        template "paceline.toml"
      end

      def change_procfile
        change("Procfile.dev", WEB) { |match| "#{match[1]}bundle exec paceline#{match[2].gsub(/\s(?:-u|--using)[ =]\S+/, "")}" }
      end

      def change_dockerfile
        port = nil
        change("Dockerfile", COMMAND) do |match|
          port = exposed_port(match.pre_match + match.post_match)
          format(DOCKER_COMMAND, port)
        end
        say "      Requests in progress have 30 s after TERM: give the container 40 s to stop (--stop-timeout 40)." if port
      end

      def change_entrypoint
        change("bin/docker-entrypoint", ENTRYPOINT) { ENTRYPOINT_CONDITION }
      end

      private

      def change(name, pattern)
        path = File.join(destination_root, name)
        return say_status(:skip, "there is no #{name}", :yellow) unless File.file?(path)
        before = File.read(path)
        match = pattern.match(before)
        unless match
          done = before.match?(/\bpaceline\b/)
          return done ? say_status(:identical, name, :blue) : say_status(:skip, "#{name} starts no server that is known here: change it yourself", :yellow)
        end
        line = yield(match)
        File.write(path, match.pre_match + line + match.post_match)
        say_status(:change, "#{name}: #{match[0]}")
        say "          to: #{line}"
      end

      def exposed_port(dockerfile)
        dockerfile[/^EXPOSE[ \t]+(\d+)/, 1] || "3000"
      end
    end
  end
end
