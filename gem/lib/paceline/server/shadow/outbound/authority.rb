# frozen_string_literal: true

# Lets the shadow trust the authority of its stand-in beside those that the application trusts, whatever file or store these come from. Names are
# checked as before. It loads no OpenSSL before the application does.
module Paceline
  module Server
    module Shadow
      module Outbound
        module Authority
          # Before OpenSSL::SSL::SSLContext: a context that reads its authorities from files has a store too, into which OpenSSL puts them.
          module OwnStore
            def set_params(*)
              super.tap { self.cert_store ||= ::OpenSSL::X509::Store.new unless verify_mode == ::OpenSSL::SSL::VERIFY_NONE }
            end
          end
          private_constant :OwnStore

          class << self
            # Whether the application has OpenSSL.
            def loaded?
              defined?(::OpenSSL) && !::Object.autoload?(:OpenSSL) && !defined?(::OpenSSL::SSL::SSLContext).nil?
            end

            # As soon as it has; at the latest when a connection with TLS is to be opened.
            def install
              return if @installed

              @installed = true
              ::OpenSSL::SSL::SSLContext.prepend(OwnStore)
              store = ::OpenSSL::X509::Store
              @add = store.instance_method(:add_cert)
              # What Paceline::HTTP knows of a store is not to change.
              @add = @add.super_method until @add.owner.equal?(store)
              forget_contexts if defined?(::Paceline::HTTP::Trust)
            end

            # Adds an authority (a certificate, DER) to what this SSLContext trusts.
            def trust(context, authority)
              store = context.cert_store or return
              return if store.instance_variable_get(:@paceline_stand_in) == authority

              store.instance_variable_set(:@paceline_stand_in, authority)
              @add.bind_call(store, ::OpenSSL::X509::Certificate.new(authority))
            end

            private

            # Those that Paceline::HTTP made before: some have no store.
            def forget_contexts
              trust = ::Paceline::HTTP::Trust
              trust.instance_variable_set(:@all, {})
              trust.instance_variable_set(:@sessions, {})
              trust.instance_variable_set(:@usual, nil)
              ::Paceline::HTTP::Destination.instance_variable_set(:@all, {})
            end
          end
        end
      end
    end
  end
end
