# frozen_string_literal: true

# The throwaway authority of a stand-in: one key, and a certificate for each host that is asked for. The key never leaves this process.
require "openssl"

module Paceline
  class StandInAuthority
    NAME = "/CN=Paceline shadow"
    ADDRESS = /\A[\d.]+\z|:/
    private_constant :NAME, :ADDRESS

    attr_reader :certificate

    def initialize
      @key = OpenSSL::PKey::EC.generate("prime256v1")
      @mutex = Mutex.new
      @contexts = {}
      @serial = 0
      @certificate = issue("#{NAME} authority", [["basicConstraints", "CA:TRUE", true], ["keyUsage", "keyCertSign,cRLSign", true]])
    end

    # To shake hands as this host: a name or an address.
    def context(host)
      @mutex.synchronize do
        @contexts[host] ||= OpenSSL::SSL::SSLContext.new.tap do |context|
          context.cert = issue(NAME, [["basicConstraints", "CA:FALSE", true], ["extendedKeyUsage", "serverAuth"],
                                      ["subjectAltName", "#{ADDRESS.match?(host) ? "IP" : "DNS"}:#{host}"]])
          context.key = @key
          context.session_id_context = "paceline"
        end
      end
    end

    private

    def issue(name, extensions)
      certificate = OpenSSL::X509::Certificate.new
      certificate.version = 2
      certificate.serial = @serial += 1
      certificate.subject = OpenSSL::X509::Name.parse(name)
      certificate.issuer = @certificate ? @certificate.subject : certificate.subject
      certificate.public_key = @key
      # Good at any time that the machine or the shadow may have.
      certificate.not_before = Time.utc(2000)
      certificate.not_after = Time.utc(2100)
      factory = OpenSSL::X509::ExtensionFactory.new(@certificate || certificate, certificate)
      [["subjectKeyIdentifier", "hash"], *extensions].each { |extension| certificate.add_extension(factory.create_extension(*extension)) }
      certificate.sign(@key, "SHA256")
    end
  end
end
