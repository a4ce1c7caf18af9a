# frozen_string_literal: true

# `Paceline::HTTP.install!`: Net::HTTP on connections that are kept. They are this process's own: the server's front is not used. Faraday and open-uri
# load Net::HTTP in the first request that calls, so this does not wait for it.
module Paceline
  module Server
    module Shadow
      module Patches
        module HttpInstall
          # Whether the application has that line already.
          def self.installed?
            !!(defined?(::Paceline::HTTP::Hosts) && ::Paceline::HTTP::Hosts.instance_variable_get(:@on))
          end

          def self.apply(_params, _shadow)
            raise Inapplicable, "Paceline::HTTP.install! is called already" if installed?

            # The real front would call the real servers.
            ENV["PACELINE_EGRESS"] = "off"
            Patches.load_library("paceline/http")
            ::Paceline::HTTP.install!
          end
        end
      end
    end
  end
end
