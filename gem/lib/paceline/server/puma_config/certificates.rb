# frozen_string_literal: true

# Certificates of `ssl_bind` as files: those that are given as text, and those that the gem localhost makes. Never leaves
# a key where another account can read it.
module Paceline
  module Server
    class PumaConfig
      module Certificates
        FOLDER = "tmp/paceline"
        PRIVATE = 0o600
        private_constant :FOLDER, :PRIVATE

        module_function

        # The options of ssl_bind, with `cert` and `key` as paths.
        def files(options)
          options = options.transform_keys(&:to_sym)
          %i[cert key].each do |part|
            text = options.delete(:"#{part}_pem") or next
            options[part] = write(part, text)
          end
          options = options.merge(of_localhost) unless options.key?(:cert) || options.key?(:keystore)
          options
        end

        def write(part, text)
          Dir.mkdir("tmp") unless Dir.exist?("tmp")
          Dir.mkdir(FOLDER, 0o700) unless Dir.exist?(FOLDER)
          path = File.expand_path("#{FOLDER}/puma-#{part}.pem")
          File.unlink(path) if File.exist?(path)
          File.open(path, File::WRONLY | File::CREAT | File::EXCL, PRIVATE) { |file| file.write(text) }
          path
        end

        def of_localhost
          return {} unless Gem.loaded_specs.key?("localhost")
          require "localhost"
          authority = ::Localhost::Authority.fetch
          { cert: authority.certificate_path, key: authority.key_path }
        rescue LoadError, StandardError
          {}
        end
      end
    end
  end
end
