# frozen_string_literal: true

# What the front is told of a destination: the members of the field Paceline-Egress that don't change from call to call
# (docs/egress-protocol.md). What the protocol has no word for is for nobody to leave out: such a call is not for the front.
module Paceline
  module HTTP
    module FrontMembers
      VERSIONS = { OpenSSL::SSL::TLS1_2_VERSION => "1.2", OpenSSL::SSL::TLS1_3_VERSION => "1.3", "TLS1_2" => "1.2", "TLS1_3" => "1.3", "TLSv1_2" => "1.2", "TLSv1_3" => "1.3" }.freeze
      # Raised here, rescued here.
      class Unspoken < StandardError; end
      private_constant :VERSIONS, :Unspoken

      class << self
        # The members as a String without the field's name; nil: it can't be said.
        def of(destination)
          members = []
          members << ["address", text(destination.ipaddr)] if destination.ipaddr
          members << ["proxy", text(proxy(destination))] if destination.proxy
          trust(destination.trust.wanted, members) if destination.tls?
          members.map { |name, value| value == true ? name : "#{name}=#{value}" }.join(", ").freeze
        rescue Unspoken
          nil
        end

        private

        def trust(wanted, members)
          system(members) unless wanted[:ca_file] || wanted[:ca_path] || wanted[:cert_store]
          wanted.each do |name, value|
            case name
            when :verify_mode then members << %w[verify ?0] if value == OpenSSL::SSL::VERIFY_NONE
            when :verify_hostname then members << %w[verify_host ?0] if value == false
            when :ca_file, :ca_path then members << [name.name, text(File.expand_path(value))] unless wanted[:cert_store]
            when :cert_store then store(Stores.content(value), wanted, members)
            when :cert then members << ["cert", bytes([value, *wanted[:extra_chain_cert]].map(&:to_der).join)]
            when :key then members << ["key", bytes(private_key(value))]
            when :extra_chain_cert then raise Unspoken unless wanted[:cert]
            when :min_version then members << ["tls_min", version(value)]
            when :max_version then members << ["tls_max", version(value)]
            else raise Unspoken
            end
          end
        end

        # This process's environment may name others than the front's.
        def system(members)
          usual = [OpenSSL::X509::DEFAULT_CERT_FILE, OpenSSL::X509::DEFAULT_CERT_DIR]
          named = ENV.values_at(OpenSSL::X509::DEFAULT_CERT_FILE_ENV, OpenSSL::X509::DEFAULT_CERT_DIR_ENV).zip(usual).map { |given, default| given || default }
          return if named.map { |path| real(path) } == usual.map { |path| real(path) }

          %w[ca_file ca_path].zip(named) { |name, path| members << [name, text(File.expand_path(path))] if File.exist?(path) }
          raise Unspoken if members.none? { |name, _| name.start_with?("ca_") }
        end

        def real(path)
          File.realpath(path)
        rescue SystemCallError
          nil
        end

        # The protocol knows a file, a folder, and certificates; in place of the system's or besides.
        def store(content, wanted, members)
          raise Unspoken if content.nil?

          content += [[:file, wanted[:ca_file]], [:path, wanted[:ca_path]]].select(&:last)
          of = content.uniq.group_by(&:first)
          return system(members) if of.keys == [:defaults]
          raise Unspoken if content.empty? || of.values_at(:file, :path).compact.any? { |found| found.size > 1 }

          if of.key?(:defaults)
            system(others = [])
            raise Unspoken unless others.empty?

            members << ["system", true]
          end
          { file: "ca_file", path: "ca_path" }.each { |kind, name| members << [name, text(File.expand_path(of[kind][0][1]))] if of.key?(kind) }
          members << ["ca", bytes(of[:certificate].map(&:last).join)] if of.key?(:certificate)
        end

        def private_key(key)
          key.private_to_der
        rescue OpenSSL::OpenSSLError, NoMethodError # it is kept by a token
          raise Unspoken
        end

        def proxy(destination)
          address, port, user, password = destination.proxy
          # Without TLS the request itself has them, in Proxy-Authorization.
          who = "#{escape(user)}:#{escape(password.to_s)}@" if user && destination.tls?
          "http://#{who}#{address.include?(":") ? "[#{address}]" : address}:#{port}"
        end

        def escape(word)
          URI.encode_www_form_component(word).gsub("+", "%20")
        end

        def version(value)
          text(VERSIONS[value.is_a?(Symbol) ? value.name : value] || raise(Unspoken))
        end

        def text(string)
          raise Unspoken unless string.match?(/\A[\x20-\x7e]*\z/)

          "\"#{string.gsub(/["\\]/) { |char| "\\#{char}" }}\""
        end

        def bytes(string)
          ":#{[string].pack("m0")}:"
        end
      end
    end
  end
end
