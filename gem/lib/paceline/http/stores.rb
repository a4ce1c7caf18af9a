# frozen_string_literal: true

# What has been put into an OpenSSL::X509::Store, which OpenSSL itself doesn't tell: so that stores with the same in them are known to be the same,
# and the front can be told. To read the system's certificates takes 20 to 30 ms of CPU, and many libraries ask for it with every call: once `lazy!`
# was called it is put off until OpenSSL gets the store to verify with.
require "openssl"

module Paceline
  module HTTP
    module Stores
      # What OpenSSL verifies with when it is told nothing. Applications may put certificates into it.
      DEFAULT = OpenSSL::SSL::SSLContext::DEFAULT_CERT_STORE
      DEFAULTS = [:defaults].freeze
      SYSTEM = [DEFAULTS].freeze

      @lazy = false

      class << self
        # [[:defaults], [:file, path], [:path, path], [:certificate, DER] ...]; nil if something else was done with it, or before we looked.
        def content(store)
          content = store.instance_variable_get(:@paceline_content) or return
          content.size > 1 ? content.uniq : content
        end

        # Whether something was done with it that makes it unlike any other.
        def peculiar?(store)
          store.instance_variable_defined?(:@paceline_content) && store.instance_variable_get(:@paceline_content).nil?
        end

        def lazy!
          @lazy = true
        end

        def lazy?
          @lazy
        end
      end

      # Before OpenSSL::X509::Store.
      module ContentRecorder
        def initialize(*)
          @paceline_content = []
          super
        end

        def set_default_paths
          @paceline_content&.push(DEFAULTS)
          return super if @paceline_used || !Stores.lazy?

          @paceline_pending = true
          nil
        end

        def add_file(path)
          super.tap { @paceline_content&.push([:file, path.to_s]) }
        end

        def add_path(path)
          super.tap { @paceline_content&.push([:path, path.to_s]) }
        end

        def add_cert(certificate)
          super.tap { @paceline_content&.push([:certificate, certificate.to_der]) }
        end

        %i[flags= purpose= trust= time= verify_callback= add_crl].each do |name|
          define_method(name) do |value|
            @paceline_content = nil
            super(value)
          end
        end

        # OpenSSL is about to use it: what was put off is done, and nothing is put off from here on.
        def paceline_used
          return if @paceline_used

          @paceline_used = true
          paceline_set_default_paths if @paceline_pending
        end
      end

      # Whatever gives a store to OpenSSL.
      GIVING = {
        OpenSSL::X509::StoreContext => :initialize, OpenSSL::SSL::SSLContext => :cert_store=, OpenSSL::PKCS7 => :verify, OpenSSL::OCSP::Request => :verify,
        OpenSSL::OCSP::BasicResponse => :verify, OpenSSL::Timestamp::Response => :verify
      }.freeze
      private_constant :ContentRecorder, :GIVING

      OpenSSL::X509::Store.alias_method :paceline_set_default_paths, :set_default_paths
      OpenSSL::X509::Store.prepend(ContentRecorder)
      DEFAULT.instance_variable_set(:@paceline_content, [DEFAULTS])
      DEFAULT.instance_variable_set(:@paceline_used, true)
      GIVING.each do |kind, name|
        kind.prepend(Module.new do
          define_method(name) do |*arguments, &block|
            arguments.each { |one| one.paceline_used if one.is_a?(OpenSSL::X509::Store) }
            super(*arguments, &block)
          end
        end)
      end
    end
  end
end
